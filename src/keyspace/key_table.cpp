#include "keyspace/key_table.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <memory>

namespace sepal::keyspace {

namespace {

// Spreads each bit of a number over all others (the finaliser of SplitMix64). One to one: each number comes
// from exactly one.
std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

}  // namespace

KeyTable::KeyTable(std::uint64_t seed, Hash hash) : seed_(seed), hash_(hash), directory_(1) {
  place(0, Segment::create(0, 0));
  // An empty table's bytes are known only now that its first segment is there.
  empty_bytes_ = byte_count();  // NOLINT(cppcoreguidelines-prefer-member-initializer)
}

KeyTable::~KeyTable() {
  for (std::size_t slot = 0; slot < directory_.size();) {
    // slot_after() reads the segment's depth.
    const std::size_t next = slot_after(slot);
    delete directory_[slot];
    slot = next;
  }
}

std::uint64_t KeyTable::byte_count() const {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the directory is one of pointers
  return sizeof(KeyTable) + directory_.capacity() * sizeof(Segment*) + segment_bytes_ + long_key_bytes_ +
         order_.size() * order_bytes;
}

std::uint64_t KeyTable::entry_bytes(std::string_view key) {
  return Segment::entry_bytes + StoredKey::heap_bytes(key.size());
}

std::uint64_t KeyTable::least_bytes() const {
  return empty_bytes_ + size_ * Segment::entry_bytes + long_key_bytes_;
}

const ValuePtr* KeyTable::find(std::string_view key, WallTime now) const {
  const std::uint64_t hash = hash_(key, seed_);
  const Segment& segment = *directory_[slot_of(hash)];
  const std::size_t index = segment.find(hash, key);
  if (index == Segment::not_found) return nullptr;
  if (segment.with_deadlines() && is_past(segment.deadline(index), now)) [[unlikely]]
    return nullptr;
  return &segment.at(index).value;
}

ValuePtr* KeyTable::find(std::string_view key) {
  return const_cast<ValuePtr*>(std::as_const(*this).find(key));
}

void KeyTable::insert(std::string_view key, ValuePtr value) {
  const std::uint64_t hash = hash_(key, seed_);
  // A loop, because all entries of a full segment may go to one half. It ends where the directory may not
  // grow further: then the segment grows beyond capacity_max (see the top of key_table.hpp).
  while (directory_[slot_of(hash)]->size() >= Segment::capacity_max && may_split(*directory_[slot_of(hash)]))
    split(slot_of(hash));
  const std::size_t slot = slot_of(hash);
  // The larger block has room for deadlines only if one of the keys still has one.
  if (const Segment& segment = *directory_[slot]; segment.is_full())
    refit(slot, segment.size() + 1, segment.earliest() != no_deadline);
  directory_[slot]->insert(hash, key, std::move(value));
  long_key_bytes_ += StoredKey::heap_bytes(key.size());
  ++size_;
}

ValuePtr KeyTable::take(std::string_view key) {
  const std::uint64_t hash = hash_(key, seed_);
  const std::size_t slot = slot_of(hash);
  Segment& segment = *directory_[slot];
  const std::size_t index = segment.find(hash, key);
  if (index == Segment::not_found) return nullptr;
  count_deadline(segment.deadline(index), no_deadline);
  ValuePtr value = segment.take(index);
  SEPAL_ASSERT(size_ > 0 && long_key_bytes_ >= StoredKey::heap_bytes(key.size()),
               "a table loses more keys than it has");
  long_key_bytes_ -= StoredKey::heap_bytes(key.size());
  --size_;
  if (!merge(hash) && segment.is_sparse())
    refit(slot_of(hash), segment.size(), segment.earliest() != no_deadline);
  return value;
}

KeyTable::Place KeyTable::place_of(std::string_view key, std::uint64_t hash) const {
  Segment& segment = *directory_[slot_of(hash)];
  return {.segment = &segment, .index = segment.find(hash, key)};
}

Deadline KeyTable::deadline(std::string_view key) const {
  const Place place = place_of(key, hash_(key, seed_));
  return place.index == Segment::not_found ? no_deadline : place.segment->deadline(place.index);
}

void KeyTable::set_deadline(std::string_view key, Deadline deadline) {
  const std::uint64_t hash = hash_(key, seed_);
  Place place = place_of(key, hash);
  SEPAL_ASSERT(place.index != Segment::not_found, "a deadline of no key");
  if (deadline == place.segment->deadline(place.index)) return;
  // Most segments have no room for deadlines. refit() moves the entry to a block with room, so it is looked
  // up again.
  if (!place.segment->with_deadlines()) {
    refit(slot_of(hash), place.segment->size(), true);
    place = place_of(key, hash);
  }
  Segment& segment = *place.segment;
  const Deadline due_before = segment.due();
  count_deadline(segment.deadline(place.index), deadline);
  segment.set_deadline(place.index, deadline);
  reorder(slot_begin(slot_of(hash)), due_before);
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
  const Deadline due = directory_[slot]->due();
  if (due == due_before) return;
  if (due_before != no_deadline) {
    const std::size_t erased = order_.erase({due_before, hash_min_of(slot)});
    SEPAL_ASSERT(erased == 1, "a segment with a deadline is not in the order of deadlines");
  }
  if (due != no_deadline) order_.emplace(due, hash_min_of(slot));
}

// A window at a time, so that the hashes and places between the stages fit into arrays on the stack.
void KeyTable::prefetch(std::span<const std::string_view> keys) const {
  while (!keys.empty()) {
    const std::size_t count = std::min(keys.size(), prefetch_window);
    prefetch_few(keys.first(count));
    keys = keys.subspan(count);
  }
}

// Each loop reads what the loop before has asked for.
void KeyTable::prefetch_few(std::span<const std::string_view> keys) const {
  SEPAL_ASSERT(keys.size() <= prefetch_window, "more keys are asked for at once than there are places for");
  std::array<std::uint64_t, prefetch_window> hashes;
  std::array<const Segment*, prefetch_window> segments;
  std::array<const Entry*, prefetch_window> entries;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    hashes[i] = hash_(keys[i], seed_);
    __builtin_prefetch(&directory_[slot_of(hashes[i])]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    segments[i] = directory_[slot_of(hashes[i])];
    segments[i]->prefetch_tags();
  }
  for (std::size_t i = 0; i < keys.size(); ++i) entries[i] = segments[i]->prefetch_entry(hashes[i]);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (entries[i] != nullptr) __builtin_prefetch(entries[i]->value.get());
}

// A heap and not a sorted list: a step of a scan takes few of the entries. The heap is a quarter cheaper
// for small steps, and six times in a segment of keys that an attacker chose (decisions/0009).
void KeyTable::line_up(const Segment& segment, std::uint64_t hash_min, std::vector<Turn>& turns) const {
  segment.prefetch_keys();
  turns.clear();
  turns.reserve(segment.size());
  for (std::size_t index = 0; index < segment.size(); ++index) {
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

ScanStep KeyTable::scan(ScanRequest request) const {
  constexpr int bits_below_position = 64 - position_bits;
  ScanStep step;
  // No answer has given such a cursor. It lies behind all positions, so the scan ends.
  if (request.cursor >> position_bits != 0) return step;
  const std::uint64_t key_count = std::max<std::uint64_t>(request.count_min, 1);
  // The client chooses the count, so the table's size bounds the room.
  step.keys.reserve(std::min(key_count, size_));
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

const Entry* KeyTable::any(std::uint64_t random, WallTime now) const {
  if (size_ == 0) return nullptr;
  for (int tries = 0; tries < any_tries_max; ++tries) {
    // Each try needs all bits anew: the high ones choose the segment, and the low ones the entry.
    random = mixed(random + static_cast<std::uint64_t>(tries));
    std::size_t slot = slot_of(random);
    // Empty segments are few: they merge with their neighbour unless that one is well filled.
    while (directory_[slot]->size() == 0) {
      slot = slot_after(slot);
      if (slot == directory_.size()) slot = 0;
    }
    const Segment& segment = *directory_[slot];
    const std::uint64_t low_half = random & 0xffff'ffff;
    // A multiplication spreads the half over the entries as a remainder would, without a division.
    const std::size_t index = (low_half * segment.size()) >> 32;
    if (!is_past(segment.deadline(index), now)) return &segment.at(index);
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
  return std::clamp<std::uint64_t>(size_ / keys_per_slot_min, always_allowed, limit);
}

// A segment above the directory's depth splits within its own places. Only one at that depth needs a larger
// directory.
bool KeyTable::may_split(const Segment& segment) const {
  return segment.depth() < depth_ || directory_.size() * 2 <= directory_slots_max();
}

void KeyTable::place(std::size_t slot, std::unique_ptr<Segment> segment) {
  SEPAL_ASSERT(segment->depth() <= depth_, "a segment is deeper than the directory");
  segment_bytes_ += segment->byte_count();
  ++segments_at_depth_[segment->depth()];
  const std::size_t places = std::size_t{1} << (depth_ - segment->depth());
  SEPAL_ASSERT(slot % places == 0 && slot + places <= directory_.size(),
               "a segment stands in places of another");
  std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(slot), places, segment.release());
}

std::unique_ptr<Segment> KeyTable::displace(std::size_t slot) {
  std::unique_ptr<Segment> segment(directory_[slot]);
  SEPAL_ASSERT(segment->byte_count() <= segment_bytes_, "a segment takes more memory than all segments");
  segment_bytes_ -= segment->byte_count();
  SEPAL_ASSERT(segments_at_depth_[segment->depth()] > 0, "more segments of a depth go than there are");
  --segments_at_depth_[segment->depth()];
  return segment;
}

// Moves the segment to a block of the size that so many entries need.
void KeyTable::refit(std::size_t slot, std::size_t entry_count, bool with_deadlines) {
  slot = slot_begin(slot);
  SEPAL_ASSERT(entry_count >= directory_[slot]->size(), "a block is made that has no room for the entries");
  auto fitting = Segment::create(directory_[slot]->depth(), entry_count, with_deadlines);
  const std::unique_ptr<Segment> segment = displace(slot);
  fitting->take_from(*segment, 0);
  place(slot, std::move(fitting));
  reorder(slot, segment->due());
}

void KeyTable::split(std::size_t slot) {
  if (directory_[slot]->depth() == depth_) {
    double_directory();
    // Each place has become two.
    slot *= 2;
  }
  slot = slot_begin(slot);
  Segment& whole = *directory_[slot];
  const std::uint32_t depth = whole.depth() + 1;
  const std::uint64_t next_bit = std::uint64_t{1} << (64 - depth);
  const std::size_t lower_count =
      whole.partition([&](std::string_view key) { return (hash_(key, seed_) & next_bit) == 0; });
  const bool with_deadlines = whole.earliest() != no_deadline;
  auto lower = Segment::create(depth, lower_count, with_deadlines);
  auto upper = Segment::create(depth, whole.size() - lower_count, with_deadlines);
  const std::unique_ptr<Segment> segment = displace(slot);
  // The upper part goes first: take_from() takes all entries from an index to the end.
  upper->take_from(*segment, lower_count);
  lower->take_from(*segment, 0);
  const std::size_t upper_slot = slot + (std::size_t{1} << (depth_ - depth));
  place(slot, std::move(lower));
  place(upper_slot, std::move(upper));
  // The lower half has the place of the whole in the order, the upper one has none yet.
  reorder(slot, segment->due());
  reorder(upper_slot, no_deadline);
}

// Merges the segment of `hash` with its other half, as long as both together are small.
bool KeyTable::merge(std::uint64_t hash) {
  bool merged = false;
  for (;;) {
    const std::size_t slot = slot_of(hash);
    const std::uint32_t depth = directory_[slot]->depth();
    if (depth == 0) break;
    const std::uint32_t unused_bits = depth_ - depth;
    // The two halves of a prefix stand side by side. The last bit of the prefix tells which half is which.
    const std::size_t upper_slot = ((slot >> unused_bits) | 1) << unused_bits;
    const std::size_t lower_slot = upper_slot - (std::size_t{1} << unused_bits);
    // The limit is half of what a split needs, so a key that comes and goes does not split and merge all
    // day.
    const std::size_t size = directory_[lower_slot]->size() + directory_[upper_slot]->size();
    if (directory_[lower_slot]->depth() != directory_[upper_slot]->depth() || size > merged_size_max) break;
    merge(lower_slot, upper_slot);
    merged = true;
  }
  while (depth_ > 0 && segments_at_depth_[depth_] == 0) halve_directory();
  return merged;
}

void KeyTable::merge(std::size_t lower_slot, std::size_t upper_slot) {
  if (const Deadline due = directory_[upper_slot]->due(); due != no_deadline)
    order_.erase({due, hash_min_of(upper_slot)});
  const bool with_deadlines =
      directory_[lower_slot]->earliest() != no_deadline || directory_[upper_slot]->earliest() != no_deadline;
  auto merged =
      Segment::create(directory_[lower_slot]->depth() - 1,
                      directory_[lower_slot]->size() + directory_[upper_slot]->size(), with_deadlines);
  const std::unique_ptr<Segment> lower = displace(lower_slot);
  const std::unique_ptr<Segment> upper = displace(upper_slot);
  merged->take_from(*lower, 0);
  merged->take_from(*upper, 0);
  place(lower_slot, std::move(merged));
  reorder(lower_slot, lower->due());
}

void KeyTable::double_directory() {
  SEPAL_ASSERT(depth_ < depth_limit, "a directory beyond its limit");
  // Into a new vector of exactly that size: byte_count() counts the capacity, and a vector that grows by
  // itself would have more.
  std::vector<Segment*> doubled;
  doubled.reserve(directory_.size() * 2);
  for (Segment* const segment : directory_) doubled.insert(doubled.end(), 2, segment);
  directory_.swap(doubled);
  ++depth_;
}

void KeyTable::halve_directory() {
  SEPAL_ASSERT(depth_ > 0, "a directory of one place is halved");
  // A new vector here as well: a resize would keep the memory.
  std::vector<Segment*> halved;
  halved.reserve(directory_.size() / 2);
  for (std::size_t slot = 0; slot < directory_.size(); slot += 2) halved.push_back(directory_[slot]);
  directory_.swap(halved);
  --depth_;
}

}  // namespace sepal::keyspace
