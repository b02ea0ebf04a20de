#include "keyspace/key_table.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <memory>

namespace sepal::keyspace {

KeyTable::KeyTable(std::uint64_t seed, Hash hash, const Range& range)
    : directory_(new Directory(0)), seed_(seed), hash_(hash), range_(range) {
  place(0, Segment::create(0, 0));
}

KeyTable::~KeyTable() {
  for (std::size_t slot = 0; slot < directory().size();) {
    // slot_after() reads the segment's depth.
    const std::size_t next = slot_after(slot);
    delete &directory()[slot];
    slot = next;
  }
  delete &directory();
}

std::uint64_t KeyTable::byte_count() const {
  return sizeof(KeyTable) + sizeof(Directory) + directory().size() * sizeof(void*) + segment_bytes_ +
         long_key_bytes_ + order_.size() * order_bytes;
}

std::uint64_t KeyTable::entry_bytes(std::string_view key) {
  return Segment::entry_bytes + StoredKey::heap_bytes(key.size());
}

std::uint64_t KeyTable::entries_bytes() const {
  return size() * Segment::entry_bytes + long_key_bytes_;
}

value::Value* KeyTable::find(const HashedKey& key, WallTime now) const {
  const Segment& segment = segment_of(key.hash);
  const Segment::Found found = segment.find(key.hash, key.key);
  if (found.value != nullptr && segment.with_deadlines() && is_past(segment.deadline(found.index), now))
      [[unlikely]]
    return nullptr;
  return found.value;
}

KeyTable::Found KeyTable::look(const HashedKey& key) const {
  Segment& segment = segment_of(key.hash);
  const Segment::Found found = segment.find(key.hash, key.key);
  if (found.value == nullptr) return {};
  return {.segment = &segment,
          .index = found.index,
          .value = found.value,
          .deadline = segment.deadline(found.index)};
}

const Segment& KeyTable::prefetch_segment(const HashedKey& key) const {
  const Segment& segment = segment_of(key.hash);
  segment.prefetch_tags();
  return segment;
}

void KeyTable::insert(const HashedKey& key, ValuePtr value, Deadline deadline, Limbo& limbo) {
  SEPAL_ASSERT(value != nullptr, "a key that would name no value");
  // A loop, because all entries of a full segment may go to one half. It ends where the directory may not
  // grow further: then the segment grows beyond capacity_max (see the top of key_table.hpp).
  while (segment_of(key.hash).size() >= Segment::capacity_max && may_split(segment_of(key.hash)))
    split(slot_of(key.hash), limbo);
  const std::size_t slot = slot_of(key.hash);
  // The new block has room for deadlines only if one of the keys still has one.
  const bool has_deadline = deadline != no_deadline;
  if (const Segment& segment = directory()[slot];
      segment.is_full() || (has_deadline && !segment.with_deadlines()))
    refit(slot, segment.size() + 1, has_deadline || segment.earliest() != no_deadline, limbo);
  Segment& segment = directory()[slot];
  const Deadline due_before = segment.due();
  segment.insert(key.hash, key.key, std::move(value), deadline);
  if (has_deadline) {
    count_deadline(no_deadline, deadline);
    reorder(slot_begin(slot), due_before);
  }
  long_key_bytes_ += StoredKey::heap_bytes(key.key.size());
  size_.store(size() + 1, std::memory_order_relaxed);
}

ValuePtr KeyTable::take(const HashedKey& key, const Found& found, Limbo& limbo) {
  count_deadline(found.deadline, no_deadline);
  ValuePtr value = found.segment->take(found.index, limbo);
  const std::uint64_t long_bytes = StoredKey::heap_bytes(key.key.size());
  SEPAL_ASSERT(size() > 0 && long_key_bytes_ >= long_bytes, "a table loses more keys than it has");
  long_key_bytes_ -= long_bytes;
  size_.store(size() - 1, std::memory_order_relaxed);
  if (!merge(key.hash, limbo) && found.segment->is_sparse())
    refit(slot_of(key.hash), found.segment->size(), found.segment->earliest() != no_deadline, limbo);
  return value;
}

void KeyTable::set_deadline(const HashedKey& key, const Found& found, Deadline deadline, Limbo& limbo) {
  SEPAL_ASSERT(found.value != nullptr, "a deadline of no key");
  if (deadline == found.deadline) return;
  Found at = found;
  // Most segments have no room for deadlines. refit() moves the entry to a block with room, so it is looked
  // up again.
  if (!at.segment->with_deadlines()) {
    refit(slot_of(key.hash), at.segment->size(), true, limbo);
    at = look(key);
  }
  const Deadline due_before = at.segment->due();
  count_deadline(at.deadline, deadline);
  at.segment->set_deadline(at.index, deadline);
  if (at.segment->due() != due_before) reorder(slot_begin(slot_of(key.hash)), due_before);
}

void KeyTable::count_deadline(Deadline before, Deadline after) {
  SEPAL_ASSERT(before == no_deadline || deadline_count_ > 0, "a table loses more deadlines than it has");
  deadline_count_ -= before == no_deadline ? 0 : 1;
  deadline_count_ += after == no_deadline ? 0 : 1;
  // no_deadline is 0, and changes no sum.
  deadline_sum_ -= static_cast<std::uint64_t>(before);
  deadline_sum_ += static_cast<std::uint64_t>(after);
}

// Does nothing for most changes of deadlines: only a segment whose due() has changed moves in the order
// (decisions/0013).
void KeyTable::reorder(std::size_t slot, Deadline due_before) {
  const Deadline due = directory()[slot].due();
  if (due == due_before) return;
  if (due_before != no_deadline) {
    const std::size_t erased = order_.erase({due_before, hash_min_of(slot)});
    SEPAL_ASSERT(erased == 1, "a segment with a deadline is not in the order of deadlines");
  }
  if (due != no_deadline) order_.emplace(due, hash_min_of(slot));
  publish_due();
}

void KeyTable::publish_due() {
  due_.store(order_.empty() ? no_deadline : order_.begin()->first, std::memory_order_relaxed);
}

// A heap and not a sorted list: a step of a scan takes few of the entries. The heap is a quarter cheaper
// for small steps, and six times in a segment of keys that an attacker chose (decisions/0009).
void KeyTable::line_up(const Segment& segment, std::uint64_t hash_min, std::vector<Turn>& turns) const {
  segment.prefetch_keys();
  turns.clear();
  turns.reserve(segment.size());
  for (std::size_t index = 0; index < segment.used(); ++index) {
    if (segment.at(index).value.load(std::memory_order_relaxed) == nullptr) continue;
    const std::uint64_t hash = hash_(segment.at(index).key.view(), seed_);
    if (hash >= hash_min) turns.push_back({.hash = hash, .index = index});
  }
  std::make_heap(turns.begin(), turns.end(), &KeyTable::is_after);
}

KeyTable::Turn KeyTable::next_of(std::vector<Turn>& turns) {
  SEPAL_ASSERT(!turns.empty(), "no entry waits for its turn");
  std::pop_heap(turns.begin(), turns.end(), &KeyTable::is_after);
  const Turn turn = turns.back();
  turns.pop_back();
  return turn;
}

const Entry* KeyTable::any(std::uint64_t random, WallTime now) const {
  if (size() == 0) return nullptr;
  for (int tries = 0; tries < any_tries_max; ++tries) {
    // Each try needs all bits anew: the high ones choose the segment, and the low ones the entry.
    random = mixed(random + static_cast<std::uint64_t>(tries));
    std::size_t slot = slot_of(random);
    // Empty segments are few: they merge with their neighbour unless that one is well filled.
    while (directory()[slot].size() == 0) {
      slot = slot_after(slot);
      if (slot == directory().size()) slot = 0;
    }
    const Segment& segment = directory()[slot];
    const std::uint64_t low_half = random & 0xffff'ffff;
    // A multiplication spreads the half over the places as a remainder would, without a division.
    const std::size_t index = (low_half * segment.used()) >> 32;
    const Entry& entry = segment.at(index);
    const bool live = entry.value.load(std::memory_order_relaxed) != nullptr;
    if (live && !is_past(segment.deadline(index), now)) return &entry;
  }
  return nullptr;
}

std::size_t KeyTable::directory_slots_max() const {
  // With evenly spread keys, a segment fills up when the average segment is half full, so these keys need at
  // most one place for every capacity_max / 4 keys. The table allows twice that: a byte of pointers for each
  // key.
  constexpr std::uint64_t keys_per_slot_min = Segment::capacity_max / 8;
  constexpr std::uint64_t always_allowed = 16;
  constexpr std::uint64_t limit = std::uint64_t{1} << depth_limit;
  return std::clamp<std::uint64_t>(size() / keys_per_slot_min, always_allowed, limit);
}

// A segment above the directory's depth splits within its own places. Only one at that depth needs a larger
// directory.
bool KeyTable::may_split(const Segment& segment) const {
  return segment.depth() < directory().depth() || directory().size() * 2 <= directory_slots_max();
}

void KeyTable::place(std::size_t slot, std::unique_ptr<Segment> segment) {
  SEPAL_ASSERT(segment->depth() <= directory().depth(), "a segment is deeper than the directory");
  segment_bytes_ += segment->byte_count();
  ++segments_at_depth_[segment->depth()];
  const std::size_t places = std::size_t{1} << (directory().depth() - segment->depth());
  SEPAL_ASSERT(slot % places == 0 && slot + places <= directory().size(),
               "a segment stands in places of another");
  Segment& placed = *segment.release();
  for (std::size_t at = slot; at < slot + places; ++at) directory().place(at, placed);
}

void KeyTable::retire(Segment& segment, Limbo& limbo) {
  SEPAL_ASSERT(segment.byte_count() <= segment_bytes_, "a segment takes more memory than all segments");
  segment_bytes_ -= segment.byte_count();
  SEPAL_ASSERT(segments_at_depth_[segment.depth()] > 0, "more segments of a depth go than there are");
  --segments_at_depth_[segment.depth()];
  segment.moved_out();
  limbo.retire(&segment);
}

// Moves the live entries to a block of the size that so many entries need.
void KeyTable::refit(std::size_t slot, std::size_t entry_count, bool with_deadlines, Limbo& limbo) {
  slot = slot_begin(slot);
  Segment& segment = directory()[slot];
  SEPAL_ASSERT(entry_count >= segment.size(), "a block is made that has no room for the entries");
  auto fitting = Segment::create(segment.depth(), entry_count, with_deadlines);
  fitting->copy_live(segment);
  const Deadline due_before = segment.due();
  place(slot, std::move(fitting));
  retire(segment, limbo);
  reorder(slot, due_before);
}

void KeyTable::split(std::size_t slot, Limbo& limbo) {
  if (directory()[slot].depth() == directory().depth()) {
    double_directory(limbo);
    // Each place has become two.
    slot *= 2;
  }
  slot = slot_begin(slot);
  Segment& whole = directory()[slot];
  const std::uint32_t depth = whole.depth() + 1;
  const std::uint64_t next_bit = std::uint64_t{1} << (64 - range_.bits - depth);
  whole.prefetch_keys();
  std::vector<bool> is_lower(whole.used());
  std::size_t lower_count = 0;
  for (std::size_t index = 0; index < whole.used(); ++index) {
    if (whole.at(index).value.load(std::memory_order_relaxed) == nullptr) continue;
    is_lower[index] = (hash_(whole.at(index).key.view(), seed_) & next_bit) == 0;
    lower_count += is_lower[index] ? 1 : 0;
  }
  const bool with_deadlines = whole.earliest() != no_deadline;
  auto lower = Segment::create(depth, lower_count, with_deadlines);
  auto upper = Segment::create(depth, whole.size() - lower_count, with_deadlines);
  for (std::size_t index = 0; index < whole.used(); ++index)
    if (whole.at(index).value.load(std::memory_order_relaxed) != nullptr)
      (is_lower[index] ? *lower : *upper).copy_from(whole, index);
  const std::size_t upper_slot = slot + (std::size_t{1} << (directory().depth() - depth));
  const Deadline due_before = whole.due();
  place(slot, std::move(lower));
  place(upper_slot, std::move(upper));
  retire(whole, limbo);
  // The lower half has the place of the whole in the order, the upper one has none yet.
  reorder(slot, due_before);
  reorder(upper_slot, no_deadline);
}

// Merges the segment of `hash` with its other half, as long as both together are small.
bool KeyTable::merge(std::uint64_t hash, Limbo& limbo) {
  bool merged = false;
  for (;;) {
    const Directory& directory = this->directory();
    const std::size_t slot = slot_of(directory, hash);
    const Segment& segment = directory[slot];
    // The limit is half of what a split needs, so a key that comes and goes does not split and merge all
    // day.
    if (segment.depth() == 0 || segment.size() > merged_size_max) break;
    const std::uint32_t unused_bits = directory.depth() - segment.depth();
    // The two halves of a prefix stand side by side. The last bit of the prefix tells which half is which.
    const std::size_t upper_slot = ((slot >> unused_bits) | 1) << unused_bits;
    const std::size_t lower_slot = upper_slot - (std::size_t{1} << unused_bits);
    const Segment& lower = directory[lower_slot];
    const Segment& upper = directory[upper_slot];
    if (lower.depth() != upper.depth() || lower.size() + upper.size() > merged_size_max) break;
    merge(lower_slot, upper_slot, limbo);
    merged = true;
  }
  while (directory().depth() > 0 && segments_at_depth_[directory().depth()] == 0) halve_directory(limbo);
  return merged;
}

void KeyTable::merge(std::size_t lower_slot, std::size_t upper_slot, Limbo& limbo) {
  Segment& lower = directory()[lower_slot];
  Segment& upper = directory()[upper_slot];
  if (upper.due() != no_deadline) order_.erase({upper.due(), hash_min_of(upper_slot)});
  publish_due();
  const bool with_deadlines = lower.earliest() != no_deadline || upper.earliest() != no_deadline;
  auto merged = Segment::create(lower.depth() - 1, lower.size() + upper.size(), with_deadlines);
  merged->copy_live(lower);
  merged->copy_live(upper);
  const Deadline due_before = lower.due();
  place(lower_slot, std::move(merged));
  retire(lower, limbo);
  retire(upper, limbo);
  reorder(lower_slot, due_before);
}

void KeyTable::publish(std::unique_ptr<Directory> directory, Limbo& limbo) {
  limbo.retire(directory_.exchange(directory.release(), std::memory_order_acq_rel));
}

void KeyTable::double_directory(Limbo& limbo) {
  SEPAL_ASSERT(directory().depth() < depth_limit, "a directory beyond its limit");
  auto doubled = std::make_unique<Directory>(directory().depth() + 1);
  for (std::size_t slot = 0; slot < doubled->size(); ++slot) doubled->place(slot, directory()[slot / 2]);
  publish(std::move(doubled), limbo);
}

void KeyTable::halve_directory(Limbo& limbo) {
  SEPAL_ASSERT(directory().depth() > 0, "a directory of one place is halved");
  auto halved = std::make_unique<Directory>(directory().depth() - 1);
  for (std::size_t slot = 0; slot < halved->size(); ++slot) halved->place(slot, directory()[slot * 2]);
  publish(std::move(halved), limbo);
}

}  // namespace sepal::keyspace
