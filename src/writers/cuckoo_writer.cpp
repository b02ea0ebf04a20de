#include <sepal/cuckoo/kind/kind.hpp>
#include <sepal/writers/cuckoo_writer.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "writers/recorded_add.hpp"

namespace sepal::writers {
namespace {

using cuckoo::FilterPtr;
using CuckooFilter = cuckoo::Filter;

// What filters may take when neither a limit nor the machine's memory is known.
constexpr std::uint64_t unbounded_plan_bytes = std::uint64_t{1} << 62;

// The account of a filter that has a key.
class KeyedMemory final : public cuckoo::Memory {
 public:
  KeyedMemory(Mutator& changes, std::uint32_t database) : changes_(changes), database_(database) {}
  bool may_take(std::uint64_t bytes) override {
    return bytes <= changes_.keyspace().value_limits().bytes_max;
  }
  void took(std::int64_t bytes) override { changes_.keyspace().resized_by(database_, bytes); }
  void retire(void* object, void (*end)(void*)) override { changes_.retire(object, end); }

 private:
  Mutator& changes_;
  std::uint32_t database_;
};

// What a filter that has no key yet may take: what the limits of a new value have left.
class MemoryLeft final : public cuckoo::Memory {
 public:
  explicit MemoryLeft(std::uint64_t bytes) : bytes_(static_cast<std::int64_t>(bytes)) {}
  bool may_take(std::uint64_t bytes) override {
    return bytes_ > 0 && bytes <= static_cast<std::uint64_t>(bytes_);
  }
  void took(std::int64_t bytes) override { bytes_ -= bytes; }
  void retire(void* object, void (*end)(void*)) override { end(object); }

 private:
  std::int64_t bytes_;
};

// Tells of items of a value that other workers do not find yet.
void tell_added(Mutator& changes, DatabaseKey key, std::span<const Fingerprint> records) {
  if (changes.log() == nullptr) return;
  if (changes.shared()) return changes.log()->gather_added(key, records);
  changes.log()->begin_add();
  changes.log()->added(key, records);
}

Result<cuckoo::Plan> planned(const Result<value::Limits>& limits, const cuckoo::Options& options) {
  if (!limits) return limits.error();
  auto plan = cuckoo::plan(options, limits->bytes_max);
  if (plan || plan.error().code != Errc::too_large) return plan;
  // Clients are told whether the limit is too low, or the machine too small.
  if (!cuckoo::plan(options, unbounded_plan_bytes)) return plan;
  return fail(Errc::memory_limit, plan.error().detail);
}

}  // namespace

bool add(Mutator& changes, DatabaseKey key, CuckooFilter& filter, std::span<const std::string_view> items,
         CuckooFilter::AddIf condition, std::vector<CuckooFilter::AddOutcome>& outcomes) noexcept {
  changes.note_change();
  KeyedMemory memory(changes, key.database);
  if (changes.log() == nullptr) return filter.add(items, condition, memory, outcomes, nullptr);
  KeyRecorder recorder(*changes.log(), key, filter);
  return filter.add(items, condition, memory, outcomes, &recorder);
}

bool remove(Mutator& changes, DatabaseKey key, CuckooFilter& filter, std::span<const std::string_view> items,
            std::span<bool> removed) noexcept {
  changes.note_change();
  KeyedMemory memory(changes, key.database);
  if (changes.log() == nullptr) return filter.remove(items, memory, removed, nullptr);
  KeyRecorder recorder(*changes.log(), key, filter);
  return filter.remove(items, memory, removed, &recorder);
}

cuckoo::PieceOutcome load_some(Mutator& changes, DatabaseKey key, CuckooFilter& filter,
                               cuckoo::PieceLoad& piece) noexcept {
  changes.note_change();
  KeyedMemory memory(changes, key.database);
  if (changes.log() == nullptr) return filter.load_some(piece, memory, nullptr);
  KeyRecorder recorder(*changes.log(), key, filter);
  return filter.load_some(piece, memory, &recorder);
}

Result<CuckooFilter*> create(Mutator& changes, DatabaseKey key, const CuckooCreation& creation,
                             std::vector<CuckooFilter::AddOutcome>& outcomes) noexcept {
  Keyspace& keyspace = changes.keyspace();
  keyspace::KeyPlace place = keyspace.place_for(key);
  const Mutator::KeyLock lock(changes, place);
  changes.expire(place, creation.now);
  const auto limits = keyspace.limits_of_new(place);
  const auto plan = planned(limits, creation.options);
  if (!plan) return plan.error();
  auto made = CuckooFilter::create(*plan);
  if (!made) return made.error();
  const auto record = cuckoo::made_record(*plan);
  changes.tell_ahead(
      keyspace::Made{.key = key, .kind = value::Kind::cuckoo, .head = record, .deadline = creation.deadline});
  MemoryLeft memory(limits->bytes_max - std::min(limits->bytes_max, (*made)->byte_count()));
  value::CollectedEntries collected;
  (void)(*made)->add(creation.items, creation.condition, memory, outcomes, &collected);
  for (std::span<const Fingerprint> left = collected.entries; !left.empty();) {
    const auto some = left.first(std::min(left.size(), value::recorded_items_max));
    tell_added(changes, key, some);
    left = left.subspan(some.size());
  }
  return &static_cast<CuckooFilter&>(changes.insert(place, std::move(*made), creation.deadline));
}

Result<void> create(Mutator& changes, DatabaseKey key, const cuckoo::Plan& plan, WallTime now) noexcept {
  Keyspace& keyspace = changes.keyspace();
  keyspace::KeyPlace place = keyspace.place_for(key);
  const Mutator::KeyLock lock(changes, place);
  changes.expire(place, now);
  const auto limits = keyspace.limits_of_new(place);
  if (!limits) return limits.error();
  if (plan.byte_count() > limits->bytes_max) return fail(Errc::memory_limit);
  auto made = CuckooFilter::create(plan);
  if (!made) return made.error();
  const auto record = cuckoo::made_record(plan);
  changes.tell_ahead(keyspace::Made{
      .key = key, .kind = value::Kind::cuckoo, .head = record, .deadline = keyspace::no_deadline});
  changes.insert(place, std::move(*made), keyspace::no_deadline);
  return {};
}

void compact(Mutator& changes, DatabaseKey key, CuckooFilter& filter) noexcept {
  const auto record = cuckoo::compacted_record(filter.compact());
  changes.told(
      true, keyspace::Changed{
                .key = key, .kind = value::Kind::cuckoo, .what = cuckoo::compacted_change, .bytes = record});
}

std::uint64_t record_bytes_of_cuckoo(std::size_t key_bytes, std::size_t item_count) {
  // The removal of a key that is past its deadline, the making, and the new deadline.
  constexpr std::uint64_t once = 4;
  const std::uint64_t calls = once + 1 + item_count / value::recorded_items_max;
  return calls * (keyspace::record_bytes_max + key_bytes) + item_count * sizeof(Fingerprint);
}

}  // namespace sepal::writers
