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
    : capacity_(capacity), depth_(static_cast<std::uint8_t>(depth)), with_deadlines_(with_deadlines) {}

std::unique_ptr<Segment> Segment::create(std::uint32_t depth, std::size_t entry_count, bool with_deadlines) {
  const std::size_t capacity = capacity_for(entry_count, with_deadlines);
  SEPAL_ASSERT(capacity <= std::numeric_limits<std::uint32_t>::max(), "a segment beyond all limits of keys");
  void* const block = ::operator new(block_bytes(capacity, with_deadlines));
  return std::unique_ptr<Segment>(::new (block)
                                      Segment(depth, static_cast<std::uint32_t>(capacity), with_deadlines));
}

Segment::~Segment() {
  if (moved_out_) return;
  for (std::size_t index = 0; index < used(); ++index) {
    Entry& entry = entries()[index];
    value::Value* const value = entry.value.load(std::memory_order_relaxed);
    if (value == nullptr) continue;
    ValuePtr(value, false).reset();
    std::destroy_at(&entry);
  }
}

std::size_t Segment::find_tag(std::uint8_t tag, std::size_t index, std::size_t end) const {
  const void* const found = std::memchr(tags() + index, tag, end - index);
  return found == nullptr ? not_found
                          : static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - tags());
}

// A key that was removed and came back stands at a dead place, too: the search goes on behind it.
Segment::Found Segment::find(std::uint64_t hash, std::string_view key) const {
  const std::uint8_t tag = tag_of(hash);
  // What stands at the places before it is complete.
  const std::size_t end = used_.load(std::memory_order_acquire);
  for (std::size_t index = find_tag(tag, 0, end); index != not_found; index = find_tag(tag, index + 1, end)) {
    // The value comes first: who finds it may look at the key, whatever is removed meanwhile.
    value::Value* const named = value(index);
    if (named != nullptr && at(index).key.view() == key) return {.index = index, .value = named};
  }
  return {};
}

void Segment::insert(std::uint64_t hash, std::string_view key, ValuePtr value, Deadline deadline) {
  SEPAL_ASSERT(!is_full() && value != nullptr && (with_deadlines_ || deadline == no_deadline),
               "an entry without a value, without room for its deadline, or beyond the places");
  const std::uint32_t index = used_.load(std::memory_order_relaxed);
  tags()[index] = tag_of(hash);
  ::new (static_cast<void*>(entries() + index)) Entry{.key = StoredKey(key), .value = value.detach()};
  if (with_deadlines_) ::new (static_cast<void*>(deadlines() + index)) StoredDeadline(deadline);
  note(deadline);
  used_.store(index + 1, std::memory_order_release);
}

// The bytes of an entry, because a key that is shared is neither moved nor copied. No other thread writes to
// it: readers may go on.
void Segment::copy_entries(const Segment& other, std::size_t from, std::size_t count) {
  const std::uint32_t index = used_.load(std::memory_order_relaxed);
  SEPAL_ASSERT(&other != this && count <= capacity_ - index, "entries beyond the places of their segment");
  // An entry's tag depends on its hash alone, so it is right in each segment.
  std::memcpy(tags() + index, other.tags() + from, count);
  // NOLINTNEXTLINE(bugprone-undefined-memory-manipulation)
  std::memcpy(static_cast<void*>(entries() + index), other.entries() + from, count * sizeof(Entry));
  for (std::size_t at = 0; at < count && (with_deadlines_ || other.with_deadlines_); ++at) {
    const Deadline deadline = other.deadline(from + at);
    SEPAL_ASSERT(with_deadlines_ || deadline == no_deadline, "an entry would lose its deadline");
    if (with_deadlines_) ::new (static_cast<void*>(deadlines() + index + at)) StoredDeadline(deadline);
    note(deadline);
  }
  used_.store(index + static_cast<std::uint32_t>(count), std::memory_order_release);
}

void Segment::copy_live(const Segment& other) {
  if (other.dead_ == 0) return copy_entries(other, 0, other.used());
  for (std::size_t index = 0; index < other.used(); ++index)
    if (other.value(index) != nullptr) copy_from(other, index);
}

ValuePtr Segment::take(std::size_t index, Limbo& limbo) {
  Entry& entry = entries()[index];
  ValuePtr value(entry.value.exchange(nullptr, std::memory_order_acq_rel), false);
  SEPAL_ASSERT(value != nullptr, "an entry is taken that the segment does not have");
  ++dead_;
  entry.key.retire(limbo);
  return value;
}

ValuePtr Segment::replace(std::size_t index, ValuePtr value) {
  ValuePtr before(entries()[index].value.exchange(value.detach(), std::memory_order_acq_rel), false);
  SEPAL_ASSERT(before != nullptr, "a value takes the place of none");
  return before;
}

void Segment::set_deadline(std::size_t index, Deadline deadline) {
  SEPAL_ASSERT(with_deadlines_ && index < used(),
               "a segment without room for deadlines, or without the entry, gets one");
  deadlines()[index].store(deadline, std::memory_order_relaxed);
  note(deadline);
}

Deadline Segment::earliest() const {
  Deadline earliest = no_deadline;
  if (!with_deadlines_) return earliest;
  for (std::size_t index = 0; index < used(); ++index) {
    const Deadline each = deadline(index);
    const bool sooner = each != no_deadline && (earliest == no_deadline || each < earliest);
    if (sooner && value(index) != nullptr) earliest = each;
  }
  return earliest;
}

void Segment::prefetch_keys() const {
  for (std::size_t index = 0; index < used(); ++index) at(index).key.prefetch();
}

// In a small segment the second line lies behind its end, which does no harm to a prefetch.
void Segment::prefetch_tags() const {
  __builtin_prefetch(this);
  __builtin_prefetch(tags() + cache_line_bytes - sizeof(Segment));
}

// The first place with the tag is taken unseen: to compare the key would mean to wait for it here. An entry
// may lie across two cache lines, so both of its ends are asked for.
const Entry* Segment::prefetch_entry(std::uint64_t hash) const {
  const std::size_t end = used_.load(std::memory_order_acquire);
  const std::size_t found = find_tag(tag_of(hash), 0, end);
  const Entry* const entry = entries() + (found == not_found ? end : found);
  __builtin_prefetch(entry);
  __builtin_prefetch(&entry->value);
  if (with_deadlines_) __builtin_prefetch(deadlines() + (entry - entries()));
  return found == not_found ? nullptr : entry;
}

}  // namespace sepal::keyspace
