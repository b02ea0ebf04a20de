#include <sepal/base/assert.hpp>
#include <sepal/filter/image.hpp>
#include <sepal/keyspace/mutator.hpp>

#include <boost/container/static_vector.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace sepal::keyspace {
namespace {

// A filter's recorder that knows the key.
class KeyRecorder final : public filter::AddRecorder {
 public:
  KeyRecorder(MutationLog& log, DatabaseKey key) : log_(log), key_(key) {}
  void begin() override { log_.begin_add(); }
  void end(std::span<const Fingerprint> added) override { log_.added(key_, added); }

 private:
  MutationLog& log_;
  DatabaseKey key_;
};

// Adds with the gate closed that are told together, a few at a time.
class AddsAlone {
 public:
  static constexpr std::size_t told_together_max = 32;

  AddsAlone(MutationLog& log, DatabaseKey key, const filter::Filter& filter)
      : log_(log), key_(key), filter_(filter), layers_(filter.layer_count()) {}

  // After each add: the layer came before the item.
  void note(std::string_view item, bool added) {
    if (filter_.layer_count() != layers_) {
      tell();
      layers_ = filter_.layer_count();
      log_.grown(key_, filter_.newest_layer().plan());
    }
    if (!added) return;
    if (fingerprints_.size() == told_together_max) tell();
    fingerprints_.push_back(filter_.fingerprint(item));
  }
  void tell() {
    if (fingerprints_.empty()) return;
    log_.begin_add();
    log_.added(key_, fingerprints_);
    fingerprints_.clear();
  }

 private:
  MutationLog& log_;
  DatabaseKey key_;
  const filter::Filter& filter_;
  std::uint32_t layers_;
  boost::container::static_vector<Fingerprint, told_together_max> fingerprints_;
};

}  // namespace

bool Mutator::try_add(DatabaseKey key, filter::Filter& filter, std::span<const std::string_view> items,
                      std::span<bool> added) {
  if (log_ == nullptr) return filter.try_add(items, added);
  KeyRecorder recorder(*log_, key);
  return filter.try_add(items, added, &recorder);
}

Result<filter::Filter*> Mutator::create(DatabaseKey key, const filter::FilterOptions& options) {
  const auto created = keyspace_.create(key, options);
  if (created && log_ != nullptr)
    log_->created(key, (*created)->options(), (*created)->newest_layer().plan());
  return created;
}

bool Mutator::remove(DatabaseKey key) {
  const bool removed = keyspace_.remove(key);
  if (removed && log_ != nullptr) log_->removed(key);
  return removed;
}

bool Mutator::expire(DatabaseKey key, WallTime now) {
  const bool expired = keyspace_.expire(key, now);
  if (expired && log_ != nullptr) log_->removed(key);
  return expired;
}

bool Mutator::set_deadline(DatabaseKey key, Deadline deadline) {
  const bool set = keyspace_.set_deadline(key, deadline);
  if (set && log_ != nullptr) log_->expires(key, deadline);
  return set;
}

Result<void> Mutator::rename(std::uint32_t database, std::string_view from, std::string_view to) {
  const auto renamed = keyspace_.rename(database, from, to);
  if (renamed && from != to && log_ != nullptr) log_->renamed(database, from, to);
  return renamed;
}

Result<void> Mutator::adopt(DatabaseKey key, FilterPtr filter, Deadline deadline, const ImageFile& file) {
  std::vector<std::byte> image;
  if (log_ != nullptr && file.number == 0) {
    image = filter::whole_image(*filter);
    SEPAL_ASSERT(image.size() <= recorded_image_bytes_max, "a filter that is too large for a record");
  }
  auto put = keyspace_.put(key, std::move(filter), deadline);
  if (put && log_ != nullptr) log_->adopted(key, {.image = image, .file = file, .deadline = deadline});
  return put;
}

Result<void> Mutator::move(DatabaseKey from, std::uint32_t to_database) {
  const auto moved = keyspace_.move(from, to_database);
  if (moved && log_ != nullptr) log_->moved(from, to_database);
  return moved;
}

void Mutator::swap(std::uint32_t database, std::uint32_t other) {
  if (database == other) return;
  keyspace_.swap(database, other);
  if (log_ != nullptr) log_->swapped(database, other);
}

void Mutator::flush(std::uint32_t database) {
  if (keyspace_.size(database) == 0) return;
  keyspace_.flush(database);
  if (log_ != nullptr) log_->flushed(database);
}

void Mutator::flush_all() {
  if (keyspace_.total_size() == 0) return;
  keyspace_.flush_all();
  if (log_ != nullptr) log_->flushed_all();
}

void Mutator::add_alone(DatabaseKey key, filter::Filter& filter, std::span<const std::string_view> items,
                        std::vector<filter::Filter::AddOutcome>& outcomes) {
  outcomes.clear();
  std::optional<AddsAlone> record;
  if (log_ != nullptr) record.emplace(*log_, key, filter);
  for (const std::string_view item : items) {
    outcomes.push_back(keyspace_.add_alone(filter, item));
    if (record) record->note(item, outcomes.back().added);
    if (outcomes.back().refusal == filter::Filter::Refusal::full) break;
  }
  if (record) record->tell();
}

std::uint64_t record_bytes_of_adds(std::size_t key_bytes, std::size_t item_count) {
  const std::uint64_t calls = 1 + item_count / (filter::recorded_items_max / 2);
  return calls * (record_bytes_max + key_bytes) + item_count * sizeof(Fingerprint);
}

std::uint64_t record_bytes_of_adds_alone(std::size_t key_bytes, std::size_t item_count,
                                         std::uint32_t layers_max) {
  // A layer is told, and what was added before it.
  const std::uint64_t of_growth = 2 * std::min<std::uint64_t>(item_count, layers_max);
  // What is gone, what is created, its deadline, and what remains to be told at the end.
  constexpr std::uint64_t once = 4;
  const std::uint64_t calls = once + of_growth + item_count / AddsAlone::told_together_max;
  return calls * (record_bytes_max + key_bytes) + item_count * sizeof(Fingerprint);
}

std::uint64_t record_bytes_of_adoption(std::size_t key_bytes) {
  return 2 * (record_bytes_max + key_bytes) + recorded_image_bytes_max;
}

std::uint64_t record_bytes_of_keys(std::span<const std::string_view> keys) {
  std::uint64_t bytes = record_bytes_max;
  // What is longer is no key. Each may be named twice.
  for (const std::string_view key : keys)
    bytes += 2 * (record_bytes_max + std::min(key.size(), key_bytes_max));
  return bytes;
}

}  // namespace sepal::keyspace
