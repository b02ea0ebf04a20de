#include "keyspace/database.hpp"

#include <algorithm>
#include <utility>

namespace sepal::keyspace {

namespace {

// A table cannot be moved, so the array is made of all of them at once.
template <std::size_t... index>
auto* made_parts(std::uint64_t seed, KeyTable::Hash hash, std::index_sequence<index...> /*parts*/) {
  const auto range = [](std::uint64_t part) {
    return KeyTable::Range{.first = part << (64 - Database::part_bits), .bits = Database::part_bits};
  };
  return new std::array<KeyTable, sizeof...(index)>{KeyTable(seed, hash, range(index))...};
}

}  // namespace

Database::~Database() {
  delete parts_.load(std::memory_order_relaxed);
}

KeyTable& Database::part_for(const HashedKey& key, std::uint64_t& made_bytes) {
  if (KeyTable* const part = part_of(key)) return *part;
  const MutexLock lock(making_);
  if (parts_.load(std::memory_order_relaxed) == nullptr) {
    Parts* const parts = made_parts(seed_, hash_, std::make_index_sequence<part_count>());
    // Before another worker finds them: what it adds is not counted here.
    for (const KeyTable& part : *parts) made_bytes += part.byte_count();
    parts_.store(parts, std::memory_order_release);
  }
  return *part_of(key);
}

value::Value* Database::find(std::string_view key, WallTime now) const {
  const HashedKey named = hashed(key);
  const KeyTable* const part = part_of(named);
  return part == nullptr ? nullptr : part->find(named, now);
}

Deadline Database::deadline(std::string_view key) const {
  const HashedKey named = hashed(key);
  const KeyTable* const part = part_of(named);
  return part == nullptr ? no_deadline : part->deadline(named);
}

// A window at a time, so that the hashes and places between the stages fit into arrays on the stack. Each
// loop reads what the loop before has asked for.
void Database::prefetch(std::span<const std::string_view> keys) const {
  if (parts_.load(std::memory_order_acquire) == nullptr) return;
  constexpr std::size_t window = KeyTable::prefetch_window;
  std::array<HashedKey, window> named;
  std::array<const Segment*, window> segments;
  std::array<const Entry*, window> entries;
  for (; !keys.empty(); keys = keys.subspan(std::min(keys.size(), window))) {
    const std::size_t count = std::min(keys.size(), window);
    for (std::size_t i = 0; i < count; ++i) {
      named[i] = hashed(keys[i]);
      part_of(named[i])->prefetch_directory(named[i]);
    }
    for (std::size_t i = 0; i < count; ++i) segments[i] = &part_of(named[i])->prefetch_segment(named[i]);
    for (std::size_t i = 0; i < count; ++i) entries[i] = segments[i]->prefetch_entry(named[i].hash);
    for (std::size_t i = 0; i < count; ++i)
      if (entries[i] != nullptr) __builtin_prefetch(entries[i]->value.load(std::memory_order_relaxed));
  }
}

std::uint64_t Database::size() const {
  std::uint64_t size = 0;
  if (const Parts* const parts = parts_.load(std::memory_order_acquire))
    for (const KeyTable& part : *parts) size += part.size();
  return size;
}

std::uint64_t Database::sum_of(std::uint64_t (KeyTable::*figure)() const) const {
  std::uint64_t sum = 0;
  visit_parts(0, [&](const KeyTable& part) {
    sum += (part.*figure)();
    return true;
  });
  return sum;
}

std::uint64_t Database::byte_count() const {
  return sum_of(&KeyTable::byte_count);
}

std::uint64_t Database::entries_bytes() const {
  return sum_of(&KeyTable::entries_bytes);
}

DeadlineSummary Database::deadlines() const {
  DeadlineSummary sum;
  visit_parts(0, [&](const KeyTable& part) {
    sum.count += part.deadlines().count;
    sum.sum += part.deadlines().sum;
    return true;
  });
  return sum;
}

Deadline Database::due() const {
  Deadline due = no_deadline;
  const Parts* const parts = parts_.load(std::memory_order_acquire);
  if (parts == nullptr) return due;
  for (const KeyTable& part : *parts) {
    const Deadline of_part = part.due();
    if (due == no_deadline || (of_part != no_deadline && of_part < due)) due = of_part;
  }
  return due;
}

bool Database::visit_any(std::uint64_t random, WallTime now,
                         const std::function<void(std::string_view)>& visit) const {
  bool found = false;
  const auto ask = [&](const KeyTable& part) {
    const Entry* const entry = part.any(random, now);
    found = entry != nullptr;
    if (found) visit(entry->key.view());
    return false;
  };
  // A part's share of the hashes is about its share of the keys. In a small database most parts are empty.
  for (std::size_t tries = 0; tries < part_count && !found; ++tries) {
    random = mixed(random + tries);
    visit_parts(random, ask);
  }
  if (!found) {
    const auto ask_all = [&](const KeyTable& part) {
      ask(part);
      return !found;
    };
    visit_parts(0, ask_all);
  }
  return found;
}

ScanStep Database::scan(const ScanRequest& request) const {
  constexpr int position_bits = KeyTable::position_bits;
  constexpr int bits_below_position = 64 - position_bits;
  ScanStep step;
  // No answer has given such a cursor. It lies behind all positions, so the scan ends.
  if (request.cursor >> position_bits != 0) return step;
  const std::uint64_t key_count = std::max<std::uint64_t>(request.count_min, 1);
  // The client chooses the count, so the table's size bounds the room.
  step.keys.reserve(std::min(key_count, size()));
  std::uint64_t visited = 0;
  std::uint64_t last_position = 0;
  const auto visit = [&](std::uint64_t hash, const Entry& entry, Deadline deadline) {
    const std::uint64_t position = hash >> bits_below_position;
    // Keys of one position stay in one answer: the cursor could not tell them apart.
    if (visited >= key_count && position != last_position) {
      // Never 0, which would end the scan: positions ascend, and one was visited before this one.
      step.cursor = position;
      return false;
    }
    if (!is_past(deadline, request.now)) step.keys.emplace_back(entry.key.view());
    ++visited;
    last_position = position;
    return true;
  };
  visit_from(request.cursor << bits_below_position, visit);
  return step;
}

}  // namespace sepal::keyspace
