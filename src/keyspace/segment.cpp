#include "keyspace/segment.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

namespace sepal::keyspace {

namespace {

constexpr std::size_t cache_line_bytes = 64;

}  // namespace

// The classes of the allocator are a quarter apart. So a little spare room is enough, and a block that is
// full goes to the next class.
std::size_t Segment::capacity_for(std::size_t entry_count, bool with_deadlines) {
  if (entry_count == 0) return 0;
  std::size_t capacity = entry_count + entry_count / 16;
  const std::uint64_t bytes = value::heap_footprint(block_bytes(capacity, with_deadlines));
  while (block_bytes(capacity + 1, with_deadlines) <= bytes) ++capacity;
  return capacity;
}

Segment::Segment(std::uint32_t depth, std::uint32_t capacity, bool with_deadlines)
    : depth_(depth), capacity_(capacity), with_deadlines_(with_deadlines) {
  // The places of deadlines are filled from the start, also those without an entry: insert() writes none.
  if (with_deadlines) std::uninitialized_fill_n(deadlines(), std::size_t{capacity_}, no_deadline);
}

std::unique_ptr<Segment> Segment::create(std::uint32_t depth, std::size_t entry_count, bool with_deadlines) {
  const std::size_t capacity = capacity_for(entry_count, with_deadlines);
  SEPAL_ASSERT(capacity <= std::numeric_limits<std::uint32_t>::max(), "a segment beyond all limits of keys");
  void* const block = ::operator new(block_bytes(capacity, with_deadlines));
  return std::unique_ptr<Segment>(::new (block)
                                      Segment(depth, static_cast<std::uint32_t>(capacity), with_deadlines));
}

Segment::~Segment() {
  std::destroy_n(entries(), size_);
}

std::size_t Segment::find_tag(std::uint8_t tag, std::size_t index) const {
  // Free places behind the entries have stale tags, so the search ends at size_.
  const void* const found = std::memchr(tags() + index, tag, size_ - index);
  return found == nullptr ? not_found
                          : static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - tags());
}

std::size_t Segment::find(std::uint64_t hash, std::string_view key) const {
  const std::uint8_t tag = tag_of(hash);
  std::size_t index = find_tag(tag, 0);
  while (index != not_found && at(index).key.view() != key) index = find_tag(tag, index + 1);
  return index;
}

void Segment::insert(std::uint64_t hash, std::string_view key, ValuePtr value) {
  // The deadline of the place is no_deadline already: take() leaves none behind.
  SEPAL_ASSERT(!is_full(), "an entry beyond the places of its segment");
  tags()[size_] = tag_of(hash);
  ::new (static_cast<void*>(entries() + size_)) Entry{.key = StoredKey(key), .value = std::move(value)};
  ++size_;
}

ValuePtr Segment::take(std::size_t index) {
  SEPAL_ASSERT(index < size_, "an entry is taken that the segment does not have");
  ValuePtr value = std::move(at(index).value);
  // The last deadline moves into the hole, and leaves none behind.
  if (with_deadlines_) {
    deadlines()[index] = deadlines()[size_ - 1];
    deadlines()[size_ - 1] = no_deadline;
  }
  --size_;
  if (index != size_) {
    tags()[index] = tags()[size_];
    at(index) = std::move(at(size_));
  }
  // The last place has given away its value by now: all that it may still free is a long key.
  std::destroy_at(&at(size_));
  return value;
}

void Segment::set_deadline(std::size_t index, Deadline deadline) {
  SEPAL_ASSERT(with_deadlines_ && index < size_,
               "a segment without room for deadlines, or without the entry, gets one");
  deadlines()[index] = deadline;
  note(deadline);
}

Deadline Segment::earliest() const {
  Deadline earliest = no_deadline;
  if (!with_deadlines_) return earliest;
  for (std::size_t index = 0; index < size_; ++index) {
    const Deadline each = deadlines()[index];
    if (each != no_deadline && (earliest == no_deadline || each < earliest)) earliest = each;
  }
  return earliest;
}

void Segment::take_from(Segment& other, std::size_t first_index) {
  SEPAL_ASSERT(&other != this && first_index <= other.size_, "entries are taken from where there are none");
  const std::size_t moved = other.size_ - first_index;
  SEPAL_ASSERT(moved <= capacity_ - size_, "entries beyond the places of their segment");
  // An entry's tag depends on its hash alone, so it is right in each segment.
  std::memcpy(tags() + size_, other.tags() + first_index, moved);
  std::uninitialized_move_n(other.entries() + first_index, moved, entries() + size_);
  std::destroy_n(other.entries() + first_index, moved);
  // A segment whose keys have lost their deadlines may move to a block without room for any.
  for (std::size_t index = 0; other.with_deadlines_ && index < moved; ++index) {
    const Deadline deadline = other.deadlines()[first_index + index];
    SEPAL_ASSERT(with_deadlines_ || deadline == no_deadline, "an entry would lose its deadline");
    if (with_deadlines_) deadlines()[size_ + index] = deadline;
    note(deadline);
  }
  size_ += static_cast<std::uint32_t>(moved);
  other.size_ = static_cast<std::uint32_t>(first_index);
}

void Segment::prefetch_keys() const {
  for (std::size_t index = 0; index < size_; ++index) at(index).key.prefetch();
}

// In a small segment the second line lies behind its end, which does no harm to a prefetch.
void Segment::prefetch_tags() const {
  __builtin_prefetch(this);
  __builtin_prefetch(tags() + cache_line_bytes - sizeof(Segment));
}

// The first place with the tag is taken unseen: to compare the key would mean to wait for it here. An entry
// may lie across two cache lines, so both of its ends are asked for.
const Entry* Segment::prefetch_entry(std::uint64_t hash) const {
  const std::size_t found = find_tag(tag_of(hash), 0);
  const Entry* const entry = entries() + (found == not_found ? size_ : found);
  __builtin_prefetch(entry);
  __builtin_prefetch(&entry->value);
  if (with_deadlines_) __builtin_prefetch(deadlines() + (entry - entries()));
  return found == not_found ? nullptr : entry;
}

}  // namespace sepal::keyspace
