// The keys of one database: extendible hashing by the first bits of the keys' 64-bit hashes
// (Fagin, Nievergelt, Pippenger, Strong: Extendible hashing, 1979).
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
// Invariants: a segment of depth d stands in 2^(D-d) neighbouring places of the directory. Segments are
// within Segment::capacity_max, with one exception: the directory has at most directory_slots_max() places,
// in proportion to the number of keys. Evenly spread hashes stay far below that. An attacker may find keys
// whose hashes begin with the same bits. Then their segment grows beyond its size, and not the directory
// beyond all bounds. An insert then costs what it always does, a search costs a byte for each key of that
// segment, and a step of a scan costs a hash for each.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "keyspace/segment.hpp"

namespace sepal::keyspace {

// Guarded by the gate, as the keyspace is: const members shared, the others exclusive.
class KeyTable {
 public:
  using Hash = std::uint64_t (*)(std::string_view key, std::uint64_t seed);

  // Short enough for clients that keep cursors in a double; long enough that two keys rarely share a
  // position.
  static constexpr int position_bits = 48;

  explicit KeyTable(std::uint64_t seed, Hash hash = &hash64);
  ~KeyTable();
  KeyTable(const KeyTable&) = delete;
  KeyTable& operator=(const KeyTable&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Memory of the table and the keys, without the values.
  [[nodiscard]] std::uint64_t byte_count() const;
  // The memory that one more key takes, without the steps in which segments and the directory grow.
  [[nodiscard]] static std::uint64_t entry_bytes(std::string_view key);
  // The least that a table with these keys can take: an empty table, and entry_bytes() for each key. Unlike
  // byte_count(), it does not depend on the order in which keys came and went.
  [[nodiscard]] std::uint64_t least_bytes() const;
  [[nodiscard]] std::size_t directory_slots() const { return directory_.size(); }

  [[nodiscard]] std::uint64_t hash_of(std::string_view key) const { return hash_(key, seed_); }
  // An empty table with the same hashes.
  [[nodiscard]] std::unique_ptr<KeyTable> empty_like() const {
    return std::make_unique<KeyTable>(seed_, hash_);
  }

  // Null when the key is not there, or past its deadline at `now`. Valid until the table changes.
  [[nodiscard]] const ValuePtr* find(std::string_view key, WallTime now = {}) const;
  [[nodiscard]] ValuePtr* find(std::string_view key);
  // The key must not be there.
  void insert(std::string_view key, ValuePtr value);
  // Null when the key was not there.
  ValuePtr take(std::string_view key);

  // no_deadline as well when the key is not there.
  [[nodiscard]] Deadline deadline(std::string_view key) const;
  // The key must be there.
  void set_deadline(std::string_view key, Deadline deadline);
  // No key is past its deadline before this time; no_deadline: no key has one.
  [[nodiscard]] Deadline due() const { return order_.empty() ? no_deadline : order_.begin()->first; }
  [[nodiscard]] DeadlineSummary deadlines() const { return {.count = deadline_count_, .sum = deadline_sum_}; }
  // The segment whose turn it is: calls visit(key) for at most `count_max` of its keys that are past their
  // deadline. Where there are none, it corrects the segment's time. False: no segment's turn has come.
  template <class Visit>
  bool visit_due(WallTime now, std::size_t count_max, Visit visit);

  // For finds and inserts of these keys that follow soon: asks for the memory of all of them before any of
  // them waits for its own. Any keys, any number; changes nothing, allocates nothing. Shared.
  void prefetch(std::span<const std::string_view> keys) const;

  // Calls visit(entry, deadline) for all entries, in any order.
  template <class Visit>
  void visit_all(Visit visit) const;
  // Calls visit(entry, deadline) for entries whose hash is at least `hash_min`, in any order, and for at
  // least `count_min` of them if there are so many. Returns the hash below which all entries have been
  // visited now, 0 when that is all.
  template <class Visit>
  std::uint64_t visit_segments(std::uint64_t hash_min, std::size_t count_min, Visit visit) const;
  // Calls visit(hash, entry, deadline), in the order of hashes, for all entries whose hash is at least
  // `hash_min`, until visit returns false.
  template <class Visit>
  void visit_from(std::uint64_t hash_min, Visit visit) const;

  // As Keyspace::scan, for this table. A cursor is a position: the first `position_bits` bits of a hash.
  struct ScanRequest {
    std::uint64_t cursor = 0;
    std::uint64_t count_min = 1;
    WallTime now{};  // keys that are past their deadline are visited, and left out of the answer
  };
  [[nodiscard]] ScanStep scan(ScanRequest request) const;

  // Each entry is about equally likely: a segment's share of the hashes is about its share of the keys. Null
  // when the table is empty, or when all of the any_tries_max entries that were tried are past their
  // deadline.
  [[nodiscard]] const Entry* any(std::uint64_t random, WallTime now = {}) const;

 private:
  static constexpr std::uint32_t depth_limit = 48;
  static constexpr std::size_t merged_size_max = Segment::capacity_max / 2;
  // Each stage of prefetch_few() asks for the memory of so many keys before the next stage reads it.
  static constexpr std::size_t prefetch_window = 32;
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

  [[nodiscard]] std::size_t slot_of(std::uint64_t hash) const {
    return depth_ == 0 ? 0 : static_cast<std::size_t>(hash >> (64 - depth_));
  }
  // The first place in the directory of the segment that stands at `slot`; then the first place behind all of
  // its places.
  [[nodiscard]] std::size_t slot_begin(std::size_t slot) const {
    const std::uint32_t unused_bits = depth_ - directory_[slot]->depth();
    return slot >> unused_bits << unused_bits;
  }
  [[nodiscard]] std::size_t slot_after(std::size_t slot) const {
    const std::uint32_t unused_bits = depth_ - directory_[slot]->depth();
    return ((slot >> unused_bits) + 1) << unused_bits;
  }
  // The lowest hash that belongs to this place of the directory.
  [[nodiscard]] std::uint64_t hash_min_of(std::size_t slot) const {
    return depth_ == 0 ? 0 : static_cast<std::uint64_t>(slot) << (64 - depth_);
  }
  // What a node of order_ takes: three pointers, a colour, its value, and the allocator's share.
  static constexpr std::uint64_t order_bytes = 64;

  // Where a key is.
  struct Place {
    Segment* segment = nullptr;
    std::size_t index = 0;
  };
  [[nodiscard]] Place place_of(std::string_view key, std::uint64_t hash) const;
  void count_deadline(Deadline before, Deadline after);
  // Call it after a change of the deadlines of the segment that stands first at `slot`. `due_before` is what
  // its due() was before.
  void reorder(std::size_t slot, Deadline due_before);
  // Gives the segment all places that its depth gives it, from `slot` on.
  void place(std::size_t slot, std::unique_ptr<Segment> segment);
  // Takes the segment out of its places, which hold a dangling pointer until the caller places another one.
  std::unique_ptr<Segment> displace(std::size_t slot);
  [[nodiscard]] std::size_t directory_slots_max() const;
  [[nodiscard]] bool may_split(const Segment& segment) const;
  void refit(std::size_t slot, std::size_t entry_count, bool with_deadlines);
  void split(std::size_t slot);
  bool merge(std::uint64_t hash);  // whether it has
  void merge(std::size_t lower_slot, std::size_t upper_slot);
  void double_directory();
  void halve_directory();
  void prefetch_few(std::span<const std::string_view> keys) const;
  // Puts all entries of the segment whose hash is at least `hash_min` into a heap with the lowest hash on
  // top.
  void line_up(const Segment& segment, std::uint64_t hash_min, std::vector<Turn>& turns) const;
  [[nodiscard]] static Turn next_of(std::vector<Turn>& turns);

  std::uint64_t seed_;
  Hash hash_;
  std::uint64_t size_ = 0;
  std::uint64_t empty_bytes_ = 0;  // byte_count() without any key
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t long_key_bytes_ = 0;
  std::uint32_t depth_ = 0;          // D: the directory has 2^D places
  std::vector<Segment*> directory_;  // Owns each segment once, in however many places it stands.
  std::array<std::uint64_t, depth_limit + 1> segments_at_depth_{};
  // The segments with a time of due(), by this time; a segment is named by its lowest hash.
  std::set<std::pair<Deadline, std::uint64_t>> order_;
  std::uint64_t deadline_count_ = 0;
  DeadlineSum deadline_sum_ = 0;
};

template <class Visit>
void KeyTable::visit_all(Visit visit) const {
  for (std::size_t slot = 0; slot < directory_.size(); slot = slot_after(slot)) {
    const Segment& segment = *directory_[slot];
    for (std::size_t index = 0; index < segment.size(); ++index)
      visit(segment.at(index), segment.deadline(index));
  }
}

template <class Visit>
bool KeyTable::visit_due(WallTime now, std::size_t count_max, Visit visit) {
  if (!is_past(due(), now)) return false;
  const std::size_t slot = slot_of(order_.begin()->second);
  Segment& segment = *directory_[slot];
  std::size_t count = 0;
  for (std::size_t index = 0; index < segment.size() && count < count_max; ++index) {
    if (!is_past(segment.deadline(index), now)) continue;
    visit(segment.at(index));
    ++count;
  }
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
  for (std::size_t slot = slot_begin(slot_of(hash_min)); slot < directory_.size(); slot = slot_after(slot)) {
    // Only between segments: the next call can then take whole segments again, and computes no hash.
    if (visited >= count_min) return hash_min_of(slot);
    const Segment& segment = *directory_[slot];
    // Where a segment has merged with one that was visited before, only the hashes tell which entries are
    // new.
    const bool whole = hash_min_of(slot) >= hash_min;
    for (std::size_t index = 0; index < segment.size(); ++index) {
      const Entry& entry = segment.at(index);
      if (!whole && hash_of(entry.key.view()) < hash_min) continue;
      visit(entry, segment.deadline(index));
      ++visited;
    }
  }
  return 0;
}

template <class Visit>
void KeyTable::visit_from(std::uint64_t hash_min, Visit visit) const {
  std::vector<Turn> turns;
  for (std::size_t slot = slot_of(hash_min); slot < directory_.size(); slot = slot_after(slot)) {
    const Segment& segment = *directory_[slot];
    line_up(segment, hash_min, turns);
    while (!turns.empty()) {
      const Turn turn = next_of(turns);
      if (!visit(turn.hash, segment.at(turn.index), segment.deadline(turn.index))) return;
    }
  }
}

}  // namespace sepal::keyspace
