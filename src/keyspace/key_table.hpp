// Keys: those of a database whose 64-bit hashes begin with the same bits (database.hpp). Extendible hashing
// by the bits behind these (Fagin, Nievergelt, Pippenger, Strong: Extendible hashing, 1979).
//
//     directory, indexed by the first D bits        segments, each with the keys of one prefix
//     000 ─┐
//     001 ─┴────────────────────────────────────>   00    depth 2
//     010 ──────────────────────────────────────>   010   depth 3
//     011 ──────────────────────────────────────>   011   depth 3
//     100 ─┐
//     101 ─┤
//     110 ─┤
//     111 ─┴────────────────────────────────────>   1     depth 1
//
// A full segment splits in two by the next bit. If its depth was D already, the directory doubles first,
// which copies pointers and no keys. So no insert pays for the whole table. The order of segments is the
// order of hashes. Within a segment, keys are put in that order when a caller asks for it (visit_from). So
// the order never depends on the size of the table: a scan is a position among the hashes, and stays right
// whatever happens in between.
//
// Segments with a key that has a deadline are also kept in an order: of the times before which none of their
// keys is due (Segment::due). Keys need no order of their own. A segment moves in the order when a deadline
// comes that is sooner than this time, which is rare; nothing moves when a deadline is moved back or goes.
// What asks for due keys looks at the segment whose turn it is, and corrects its time.
//
// After removals two segments that differ in their last bit merge when half a segment holds both
// (merged_size_max). The directory halves when no segment needs its last bit.
//
// Threads. Readers take no lock: members marked *shared* are called inside the gate by any number of threads.
// Each of them reads the directory, then a segment. The others are called by one thread at a time, which
// holds the lock (mutex()) or has closed the gate. It *publishes* what it has made by one store, and hands
// what it took out to a Limbo. A reader that has found the old directory or segment goes on in it, and
// answers what was right when it began.
//
// Invariants: a segment of depth d stands in 2^(D-d) neighbouring places of the directory. Segments are
// within Segment::capacity_max, with one exception: the directory has at most directory_slots_max() places,
// in proportion to the number of keys. Evenly spread hashes stay far below that. An attacker may find keys
// whose hashes begin with the same bits. Then their segment grows beyond its size, and not the directory
// beyond all bounds. An insert then costs what it always does, a search costs a byte for each key of that
// segment, and a step of a scan costs a hash for each.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "keyspace/segment.hpp"

namespace sepal::keyspace {

// Spreads each bit of a number over all others (the finaliser of SplitMix64). One to one: each number comes
// from exactly one.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

// A key with its hash, so that it is computed once.
struct HashedKey {
  std::string_view key;
  std::uint64_t hash = 0;
};

class KeyTable {
 public:
  using Hash = std::uint64_t (*)(std::string_view key, std::uint64_t seed);

  // Short enough for clients that keep cursors in a double; long enough that two keys rarely share a
  // position.
  static constexpr int position_bits = 48;

  // The hashes that the table has keys of: those that begin with the first `bits` bits of `first`.
  struct Range {
    std::uint64_t first = 0;
    std::uint32_t bits = 0;
  };

  explicit KeyTable(std::uint64_t seed, Hash hash = &hash64) : KeyTable(seed, hash, {}) {}
  KeyTable(std::uint64_t seed, Hash hash, const Range& range);
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  [[nodiscard]] std::uint64_t range_first() const { return range_.first; }
  // What a thread holds that changes the table, while the gate is shared.
  [[nodiscard]] Mutex& mutex() const { return mutex_; }
  // With the lock: the log that was last told of a change; null: none was. It may still gather that.
  [[nodiscard]] MutationLog*& last_log() { return last_log_; }

  [[nodiscard]] std::uint64_t size() const { return size_.load(std::memory_order_relaxed); }  // any thread
  // Memory of the table and the keys, without the values.
  [[nodiscard]] std::uint64_t byte_count() const;
  // The memory that one more key takes, without the steps in which segments and the directory grow.
  [[nodiscard]] static std::uint64_t entry_bytes(std::string_view key);
  // entry_bytes() of all keys. Unlike byte_count(), it does not depend on the order in which keys came and
  // went.
  [[nodiscard]] std::uint64_t entries_bytes() const;
  [[nodiscard]] std::size_t directory_slots() const { return directory().size(); }

  [[nodiscard]] HashedKey hashed(std::string_view key) const {
    return {.key = key, .hash = hash_(key, seed_)};
  }

  // Where a key is. Valid until the table changes; what it names, until the caller leaves the gate.
  struct Found {
    Segment* segment = nullptr;
    std::size_t index = 0;
    value::Value* value = nullptr;  // null: the key is not there
    Deadline deadline = no_deadline;
  };
  // Shared.
  [[nodiscard]] Found look(const HashedKey& key) const;
  // Shared. Null when the key is not there, or past its deadline at `now`. Valid until the caller leaves the
  // gate.
  [[nodiscard]] value::Value* find(const HashedKey& key, WallTime now = {}) const;
  [[nodiscard]] value::Value* find(std::string_view key, WallTime now = {}) const {
    return find(hashed(key), now);
  }
  // Shared. no_deadline as well when the key is not there.
  [[nodiscard]] Deadline deadline(const HashedKey& key) const { return look(key).deadline; }
  [[nodiscard]] Deadline deadline(std::string_view key) const { return deadline(hashed(key)); }
  // Shared. For finds and inserts of these keys that follow soon: asks for the memory of all of them before
  // any of them waits for its own. Any keys; changes nothing, allocates nothing. A call has at most
  // prefetch_window, with their hashes.
  static constexpr std::size_t prefetch_window = 32;
  void prefetch_directory(const HashedKey& key) const {
    const Directory& directory = this->directory();
    directory.prefetch(slot_of(directory, key.hash));
  }
  [[nodiscard]] const Segment& prefetch_segment(const HashedKey& key) const;

  // The key must not be there, and the value not be null. Readers find the key with its deadline.
  void insert(const HashedKey& key, ValuePtr value, Deadline deadline, Limbo& limbo);
  void insert(const HashedKey& key, ValuePtr value, Limbo& limbo) {
    insert(key, std::move(value), no_deadline, limbo);
  }
  // The key is there: `found` says where. Readers may still use the value. A view of the stored key ends.
  [[nodiscard]] ValuePtr take(const HashedKey& key, const Found& found, Limbo& limbo);
  // The same, and null when the key was not there.
  [[nodiscard]] ValuePtr take(const HashedKey& key, Limbo& limbo) {
    const Found found = look(key);
    return found.value == nullptr ? nullptr : take(key, found, limbo);
  }
  // Gives a key that is there another value, and returns the one before.
  [[nodiscard]] static ValuePtr replace(const Found& found, ValuePtr value) {
    return found.segment->replace(found.index, std::move(value));
  }
  void set_deadline(const HashedKey& key, const Found& found, Deadline deadline, Limbo& limbo);
  void set_deadline(const HashedKey& key, Deadline deadline, Limbo& limbo) {
    set_deadline(key, look(key), deadline, limbo);
  }

  // Any thread. No key is past its deadline before this time; no_deadline: no key has one.
  [[nodiscard]] Deadline due() const { return due_.load(std::memory_order_relaxed); }
  [[nodiscard]] DeadlineSummary deadlines() const { return {.count = deadline_count_, .sum = deadline_sum_}; }
  // The segment whose turn it is: calls visit(key) for at most `count_max` of its keys that are past their
  // deadline. Where there are none, it corrects the segment's time. False: no segment's turn has come.
  template <class Visit>
  bool visit_due(WallTime now, std::size_t count_max, Visit visit);

  // Calls visit(entry, value, deadline) for all entries, in any order.
  template <class Visit>
  void visit_all(Visit visit) const;
  // Calls visit(entry, value, deadline) for entries whose hash is at least `hash_min`, in any order, and for
  // at least `count_min` of them if there are so many. Returns the hash below which all entries have been
  // visited now, 0 when that is all.
  template <class Visit>
  std::uint64_t visit_segments(std::uint64_t hash_min, std::size_t count_min, Visit visit) const;
  // Calls visit(hash, entry, deadline), in the order of hashes, for all entries whose hash is at least
  // `hash_min`, until visit returns false. Then it returns false, too.
  template <class Visit>
  bool visit_from(std::uint64_t hash_min, Visit visit) const;

  // Each entry is about equally likely: a segment's share of the hashes is about its share of the keys. Null
  // when the table is empty, or when all of the any_tries_max entries that were tried are past their
  // deadline.
  [[nodiscard]] const Entry* any(std::uint64_t random, WallTime now = {}) const;

 private:
  static constexpr std::uint32_t depth_limit = 48;
  static constexpr std::size_t merged_size_max = Segment::capacity_max / 2;
  static constexpr int any_tries_max = 100;
  static_assert(position_bits <= 53, "a double keeps a cursor as it is");
  static_assert(depth_limit < 64 && merged_size_max > 0 && merged_size_max < Segment::capacity_max);

  // An entry of a segment that waits for its turn.
  struct Turn {
    std::uint64_t hash;
    std::size_t index;
  };
  [[nodiscard]] static bool is_after(const Turn& one, const Turn& other) {
    return one.hash != other.hash ? one.hash > other.hash : one.index > other.index;
  }

  // The places are published with the directory. A place that gets another segment publishes that.
  class Directory {
   public:
    explicit Directory(std::uint32_t depth) : depth_(depth), places_(std::size_t{1} << depth) {}
    [[nodiscard]] std::uint32_t depth() const { return depth_; }
    [[nodiscard]] std::size_t size() const { return places_.size(); }
    [[nodiscard]] Segment& operator[](std::size_t slot) const {
      return *places_[slot].load(std::memory_order_acquire);
    }
    void place(std::size_t slot, Segment& segment) {
      places_[slot].store(&segment, std::memory_order_release);
    }
    void prefetch(std::size_t slot) const { __builtin_prefetch(&places_[slot]); }

   private:
    std::uint32_t depth_;
    std::vector<std::atomic<Segment*>> places_;
  };
  [[nodiscard]] const Directory& directory() const { return *directory_.load(std::memory_order_acquire); }
  [[nodiscard]] Directory& directory() { return *directory_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::size_t slot_of(const Directory& directory, std::uint64_t hash) const {
    const std::uint32_t depth = directory.depth();
    return depth == 0 ? 0 : static_cast<std::size_t>(hash << range_.bits >> (64 - depth));
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t hash) const { return slot_of(directory(), hash); }
  [[nodiscard]] Segment& segment_of(std::uint64_t hash) const {
    const Directory& directory = this->directory();
    return directory[slot_of(directory, hash)];
  }
  // The first place in the directory of the segment that stands at `slot`; then the first place behind all of
  // its places.
  [[nodiscard]] std::size_t slot_begin(std::size_t slot) const {
    const std::uint32_t unused_bits = directory().depth() - directory()[slot].depth();
    return slot >> unused_bits << unused_bits;
  }
  [[nodiscard]] std::size_t slot_after(std::size_t slot) const {
    const std::uint32_t unused_bits = directory().depth() - directory()[slot].depth();
    return ((slot >> unused_bits) + 1) << unused_bits;
  }
  // The lowest hash that belongs to this place of the directory.
  [[nodiscard]] std::uint64_t hash_min_of(std::size_t slot) const {
    const std::uint32_t depth = directory().depth();
    return depth == 0 ? range_.first
                      : range_.first | static_cast<std::uint64_t>(slot) << (64 - depth) >> range_.bits;
  }
  // What a node of order_ takes: three pointers, a colour, its value, and the allocator's share.
  static constexpr std::uint64_t order_bytes = 64;

  void count_deadline(Deadline before, Deadline after);
  // Call it after a change of the deadlines of the segment that stands first at `slot`. `due_before` is what
  // its due() was before.
  void reorder(std::size_t slot, Deadline due_before);
  void publish_due();
  // Gives the segment all places that its depth gives it, from `slot` on.
  void place(std::size_t slot, std::unique_ptr<Segment> segment);
  // The segment leaves its places, which another one gets now: all live entries are in that. Readers may
  // still be in it until the limbo ends it; it is valid until the caller returns.
  void retire(Segment& segment, Limbo& limbo);
  [[nodiscard]] std::size_t directory_slots_max() const;
  [[nodiscard]] bool may_split(const Segment& segment) const;
  void refit(std::size_t slot, std::size_t entry_count, bool with_deadlines, Limbo& limbo);
  void split(std::size_t slot, Limbo& limbo);
  bool merge(std::uint64_t hash, Limbo& limbo);  // whether it has
  void merge(std::size_t lower_slot, std::size_t upper_slot, Limbo& limbo);
  void double_directory(Limbo& limbo);
  void halve_directory(Limbo& limbo);
  void publish(std::unique_ptr<Directory> directory, Limbo& limbo);
  // Puts all entries of the segment whose hash is at least `hash_min` into a heap with the lowest hash on
  // top.
  void line_up(const Segment& segment, std::uint64_t hash_min, std::vector<Turn>& turns) const;
  [[nodiscard]] static Turn next_of(std::vector<Turn>& turns);

  std::atomic<Directory*> directory_{nullptr};  // Owned. It owns each segment once, in however many places.
  std::uint64_t seed_;
  Hash hash_;
  Range range_;
  mutable Mutex mutex_;
  MutationLog* last_log_ = nullptr;
  std::atomic<std::uint64_t> size_{0};
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t long_key_bytes_ = 0;
  std::array<std::uint32_t, depth_limit + 1> segments_at_depth_{};
  // The segments with a time of due(), by this time; a segment is named by its lowest hash.
  std::set<std::pair<Deadline, std::uint64_t>> order_;
  std::atomic<Deadline> due_{no_deadline};  // the first time in order_
  std::uint64_t deadline_count_ = 0;
  DeadlineSum deadline_sum_ = 0;
};

template <class Visit>
void KeyTable::visit_all(Visit visit) const {
  for (std::size_t slot = 0; slot < directory().size(); slot = slot_after(slot))
    directory()[slot].visit_live(visit);
}

template <class Visit>
bool KeyTable::visit_due(WallTime now, std::size_t count_max, Visit visit) {
  if (!is_past(due(), now)) return false;
  const std::size_t slot = slot_of(order_.begin()->second);
  Segment& segment = directory()[slot];
  std::size_t count = 0;
  segment.visit_live([&](const Entry& entry, const value::Value& value, Deadline deadline) {
    if (count == count_max || !is_past(deadline, now)) return;
    visit(entry, value);
    ++count;
  });
  if (count != 0) return true;
  const Deadline due_before = segment.due();
  segment.correct_due();
  reorder(slot, due_before);
  return true;
}

template <class Visit>
std::uint64_t KeyTable::visit_segments(std::uint64_t hash_min, std::size_t count_min, Visit visit) const {
  std::size_t visited = 0;
  // The segment of `hash_min` may begin below it.
  for (std::size_t slot = slot_begin(slot_of(hash_min)); slot < directory().size(); slot = slot_after(slot)) {
    // Only between segments: the next call can then take whole segments again, and computes no hash.
    if (visited >= count_min) return hash_min_of(slot);
    // Where a segment has merged with one that was visited before, only the hashes tell which entries are
    // new.
    const bool whole = hash_min_of(slot) >= hash_min;
    directory()[slot].visit_live([&](const Entry& entry, value::Value& value, Deadline deadline) {
      if (!whole && hash_(entry.key.view(), seed_) < hash_min) return;
      visit(entry, value, deadline);
      ++visited;
    });
  }
  return 0;
}

template <class Visit>
bool KeyTable::visit_from(std::uint64_t hash_min, Visit visit) const {
  std::vector<Turn> turns;
  for (std::size_t slot = slot_of(hash_min); slot < directory().size(); slot = slot_after(slot)) {
    const Segment& segment = directory()[slot];
    line_up(segment, hash_min, turns);
    while (!turns.empty()) {
      const Turn turn = next_of(turns);
      if (!visit(turn.hash, segment.at(turn.index), segment.deadline(turn.index))) return false;
    }
  }
  return true;
}

}  // namespace sepal::keyspace
