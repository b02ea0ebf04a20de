// The keys of one database, in parts by the first bits of their hashes. Each part is a key table with a lock
// of its own, so that workers change keys of different parts at the same time. The order of parts is the
// order of hashes.
//
// An empty database has no parts: most of the sixteen never get a key.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "keyspace/key_table.hpp"

namespace sepal::keyspace {

// Members are shared, unless said otherwise. Those that look at more than one key take the locks of the
// parts, one after the other, so the caller holds none.
class Database {
 public:
  static constexpr std::uint32_t part_bits = 6;
  static constexpr std::size_t part_count = std::size_t{1} << part_bits;

  explicit Database(std::uint64_t seed, KeyTable::Hash hash = &hash64) : seed_(seed), hash_(hash) {}
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] HashedKey hashed(std::string_view key) const {
    return {.key = key, .hash = hash_(key, seed_)};
  }
  // The part that has the key, or would have it; null: the database has no keys yet.
  [[nodiscard]] KeyTable* part_of(const HashedKey& key) const {
    Parts* const parts = parts_.load(std::memory_order_acquire);
    return parts == nullptr ? nullptr : &(*parts)[key.hash >> (64 - part_bits)];
  }
  // The same, and makes the parts where there are none: then `made_bytes` becomes their memory.
  [[nodiscard]] KeyTable& part_for(const HashedKey& key, std::uint64_t& made_bytes);

  [[nodiscard]] value::Value* find(std::string_view key, WallTime now = {}) const;
  [[nodiscard]] Deadline deadline(std::string_view key) const;
  void prefetch(std::span<const std::string_view> keys) const;

  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] std::uint64_t byte_count() const;
  // The sum of KeyTable::entries_bytes() of the parts.
  [[nodiscard]] std::uint64_t entries_bytes() const;
  [[nodiscard]] DeadlineSummary deadlines() const;
  [[nodiscard]] Deadline due() const;

  // The memory of all values. Each change is told by Keyspace.
  std::atomic<std::uint64_t> value_bytes{0};

  // As the members of KeyTable with these names.
  template <class Visit>
  void visit_all(Visit visit) const;
  template <class Visit>
  std::uint64_t visit_segments(std::uint64_t hash_min, std::size_t count_min, Visit visit) const;
  template <class Visit>
  void visit_from(std::uint64_t hash_min, Visit visit) const;
  // This one tells around(part, call) of the part that it calls visit_due() of.
  template <class Around, class Visit>
  bool visit_due(WallTime now, std::size_t count_max, Around around, Visit visit);
  // Calls visit(key) for a key as KeyTable::any chooses it. False: none was found.
  bool visit_any(std::uint64_t random, WallTime now,
                 const std::function<void(std::string_view)>& visit) const;

  // As Keyspace::scan, for this database. A cursor is a position: the first `position_bits` bits of a hash.
  struct ScanRequest {
    std::uint64_t cursor = 0;
    std::uint64_t count_min = 1;
    WallTime now{};  // keys that are past their deadline are visited, and left out of the answer
  };
  [[nodiscard]] ScanStep scan(const ScanRequest& request) const;

 private:
  using Parts = std::array<KeyTable, part_count>;
  // Calls visit(part) for the parts from that of `hash_min` on, with their locks, until visit returns false.
  template <class Visit>
  void visit_parts(std::uint64_t hash_min, Visit visit) const;
  [[nodiscard]] std::uint64_t sum_of(std::uint64_t (KeyTable::*figure)() const) const;  // of all parts

  std::uint64_t seed_;
  KeyTable::Hash hash_;
  std::atomic<Parts*> parts_{nullptr};  // owned
  Mutex making_;                        // Lock order: inside the gate; no lock is taken inside it.
};

template <class Visit>
void Database::visit_parts(std::uint64_t hash_min, Visit visit) const {
  Parts* const parts = parts_.load(std::memory_order_acquire);
  if (parts == nullptr) return;
  for (std::size_t index = hash_min >> (64 - part_bits); index < part_count; ++index) {
    KeyTable& part = (*parts)[index];
    const MutexLock lock(part.mutex());
    if (!visit(part)) return;
  }
}

template <class Visit>
void Database::visit_all(Visit visit) const {
  visit_parts(0, [&](const KeyTable& part) {
    part.visit_all(visit);
    return true;
  });
}

template <class Visit>
std::uint64_t Database::visit_segments(std::uint64_t hash_min, std::size_t count_min, Visit visit) const {
  std::size_t visited = 0;
  std::uint64_t next = 0;
  visit_parts(hash_min, [&](const KeyTable& part) {
    // The part before it ended at its last segment.
    if (visited >= count_min) {
      next = part.range_first();
      return false;
    }
    const auto count = [&](const Entry& entry, value::Value& value, Deadline deadline) {
      visit(entry, value, deadline);
      ++visited;
    };
    next = part.visit_segments(std::max(hash_min, part.range_first()), count_min - visited, count);
    return next == 0;
  });
  return next;
}

template <class Visit>
void Database::visit_from(std::uint64_t hash_min, Visit visit) const {
  visit_parts(hash_min, [&](const KeyTable& part) {
    return part.visit_from(std::max(hash_min, part.range_first()), visit);
  });
}

template <class Around, class Visit>
bool Database::visit_due(WallTime now, std::size_t count_max, Around around, Visit visit) {
  bool any = false;
  visit_parts(0, [&](KeyTable& part) {
    if (is_past(part.due(), now)) around(part, [&] { any = part.visit_due(now, count_max, visit); });
    return !any;
  });
  return any;
}

}  // namespace sepal::keyspace
