#include "key_table.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <memory>

namespace sepal::keyspace {

namespace {

// Spreads the bits of a number over all others (the finaliser of SplitMix64). One to one: every number has
// one that leads to it.
std::uint64_t mixed(std::uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

}  // namespace

KeyTable::KeyTable(std::uint64_t seed, Hash hash) : seed_(seed), hash_(hash) {
  directory_.push_back(std::make_unique<Segment>(0).release());
  segments_at_depth_[0] = 1;
  segment_bytes_ = directory_[0]->byte_count();
  empty_bytes_ = byte_count();
}

KeyTable::~KeyTable() {
  for (std::size_t slot = 0; slot < directory_.size();) {
    const std::size_t next = slot_after(slot);
    const std::unique_ptr<Segment> owned(directory_[slot]);
    slot = next;
  }
}

std::uint64_t KeyTable::byte_count() const {
  return sizeof(KeyTable) + directory_.capacity() * sizeof(Segment*) + segment_bytes_ + long_key_bytes_;
}

std::uint64_t KeyTable::entry_bytes(std::string_view key) {
  return Segment::entry_bytes + StoredKey::heap_bytes(key.size());
}

std::uint64_t KeyTable::least_bytes() const {
  return empty_bytes_ + size_ * Segment::entry_bytes + long_key_bytes_;
}

const FilterPtr* KeyTable::find(std::string_view key) const {
  const std::uint64_t hash = hash_(key, seed_);
  const Segment& segment = *directory_[slot_of(hash)];
  const std::size_t index = segment.find(hash, key);
  return index == Segment::not_found ? nullptr : &segment.at(index).filter;
}

FilterPtr* KeyTable::find(std::string_view key) {
  return const_cast<FilterPtr*>(std::as_const(*this).find(key));
}

void KeyTable::insert(std::string_view key, FilterPtr filter) {
  const std::uint64_t hash = hash_(key, seed_);
  while (directory_[slot_of(hash)]->size() >= Segment::capacity_max && may_split(*directory_[slot_of(hash)]))
    split(slot_of(hash));
  Segment& segment = *directory_[slot_of(hash)];
  segment_bytes_ -= segment.byte_count();
  segment.insert(hash, key, std::move(filter));
  segment_bytes_ += segment.byte_count();
  long_key_bytes_ += StoredKey::heap_bytes(key.size());
  ++size_;
}

FilterPtr KeyTable::take(std::string_view key) {
  const std::uint64_t hash = hash_(key, seed_);
  Segment& segment = *directory_[slot_of(hash)];
  const std::size_t index = segment.find(hash, key);
  if (index == Segment::not_found) return nullptr;
  segment_bytes_ -= segment.byte_count();
  FilterPtr filter = segment.take(index);
  segment_bytes_ += segment.byte_count();
  long_key_bytes_ -= StoredKey::heap_bytes(key.size());
  --size_;
  merge(hash);
  return filter;
}

ScanStep KeyTable::scan(ScanRequest request) const {
  constexpr int bits_below_position = 64 - position_bits;
  ScanStep step;
  if (request.cursor >> position_bits != 0) return step;
  const std::uint64_t key_count = std::max<std::uint64_t>(request.count_min, 1);
  step.keys.reserve(std::min(key_count, size_));
  std::uint64_t last_position = 0;
  visit_from(request.cursor << bits_below_position, [&](std::uint64_t hash, const Entry& entry) {
    const std::uint64_t position = hash >> bits_below_position;
    // Keys of one position go together: the cursor could not tell them apart.
    if (step.keys.size() >= key_count && position != last_position) {
      step.cursor = position;
      return false;
    }
    step.keys.emplace_back(entry.key.view());
    last_position = position;
    return true;
  });
  return step;
}

const Entry* KeyTable::any(std::uint64_t random) const {
  if (size_ == 0) return nullptr;
  const std::uint64_t bits = mixed(random);
  std::size_t slot = slot_of(bits);
  // Empty segments are few: they merge with their neighbour unless that one is well filled.
  while (directory_[slot]->size() == 0) {
    slot = slot_after(slot);
    if (slot == directory_.size()) slot = 0;
  }
  const Segment& segment = *directory_[slot];
  const std::uint64_t low_half = bits & 0xffff'ffff;
  return &segment.at((low_half * segment.size()) >> 32);
}

std::size_t KeyTable::directory_slots_max() const {
  // Of evenly spread keys a segment fills up when the average one holds a half, so they need a place for
  // every capacity_max / 4 keys at most. Allowed is four times that: half a byte of pointers for each key.
  constexpr std::uint64_t keys_per_slot_min = Segment::capacity_max / 16;
  constexpr std::uint64_t always_allowed = 16;
  constexpr std::uint64_t limit = std::uint64_t{1} << depth_limit;
  return std::clamp<std::uint64_t>(size_ / keys_per_slot_min, always_allowed, limit);
}

bool KeyTable::may_split(const Segment& segment) const {
  return segment.depth() < depth_ || directory_.size() * 2 <= directory_slots_max();
}

void KeyTable::split(std::size_t slot) {
  Segment* const lower = directory_[slot];
  if (lower->depth() == depth_) {
    double_directory();
    slot *= 2;
  }
  --segments_at_depth_[lower->depth()];
  segment_bytes_ -= lower->byte_count();
  const std::size_t end = slot_after(slot);
  Segment* const upper = lower->split().release();
  segments_at_depth_[lower->depth()] += 2;
  segment_bytes_ += lower->byte_count() + upper->byte_count();
  const std::size_t places = std::size_t{1} << (depth_ - upper->depth());
  std::fill(directory_.begin() + static_cast<std::ptrdiff_t>(end - places),
            directory_.begin() + static_cast<std::ptrdiff_t>(end), upper);
}

// Merges the segment that `hash` belongs to with its other half, as long as both together are small.
void KeyTable::merge(std::uint64_t hash) {
  for (;;) {
    const std::size_t slot = slot_of(hash);
    const std::uint32_t depth = directory_[slot]->depth();
    if (depth == 0) break;
    const std::uint32_t unused_bits = depth_ - depth;
    const std::size_t upper_slot = ((slot >> unused_bits) | 1) << unused_bits;
    const std::size_t places = std::size_t{1} << unused_bits;
    Segment* const lower = directory_[upper_slot - places];
    Segment* const upper = directory_[upper_slot];
    if (lower->depth() != upper->depth() || lower->size() + upper->size() > merged_size_max) break;
    segment_bytes_ -= lower->byte_count() + upper->byte_count();
    lower->absorb(*upper);
    segment_bytes_ += lower->byte_count();
    segments_at_depth_[depth] -= 2;
    ++segments_at_depth_[depth - 1];
    std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(upper_slot), places, lower);
    const std::unique_ptr<Segment> emptied(upper);
  }
  while (depth_ > 0 && segments_at_depth_[depth_] == 0) halve_directory();
}

void KeyTable::double_directory() {
  SEPAL_ASSERT(depth_ < depth_limit, "a directory beyond its limit");
  std::vector<Segment*> doubled;
  doubled.reserve(directory_.size() * 2);
  for (Segment* const segment : directory_) doubled.insert(doubled.end(), 2, segment);
  directory_.swap(doubled);
  ++depth_;
}

void KeyTable::halve_directory() {
  std::vector<Segment*> halved;
  halved.reserve(directory_.size() / 2);
  for (std::size_t slot = 0; slot < directory_.size(); slot += 2) halved.push_back(directory_[slot]);
  directory_.swap(halved);
  --depth_;
}

}  // namespace sepal::keyspace
