#include "segment.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sepal::keyspace {

std::size_t Segment::lower_bound(std::uint64_t hash) const {
  const std::size_t count = hashes_.size();
  // Where an even spread would put it: the bits behind the segment's own are a fraction of its length.
  const std::uint64_t fraction = (hash << depth_) >> 32;
  std::size_t low = (fraction * count) >> 32;
  std::size_t high = low;
  for (std::size_t step = 1; low > 0 && hashes_[low - 1] >= hash; step *= 2) {
    high = low - 1;
    low -= std::min(low, step);
  }
  for (std::size_t step = 1; high < count && hashes_[high] < hash; step *= 2) {
    low = high + 1;
    high += std::min(count - high, step);
  }
  const auto begin = hashes_.begin();
  const auto found = std::lower_bound(begin + static_cast<std::ptrdiff_t>(low),
                                      begin + static_cast<std::ptrdiff_t>(high), hash);
  return static_cast<std::size_t>(found - begin);
}

std::size_t Segment::find(std::uint64_t hash, std::string_view key) const {
  for (std::size_t index = lower_bound(hash); index < hashes_.size() && hashes_[index] == hash; ++index)
    if (entries_[index].key.view() == key) return index;
  return not_found;
}

void Segment::insert(std::uint64_t hash, std::string_view key, FilterPtr filter) {
  if (hashes_.size() == hashes_.capacity()) reallocate(hashes_.size() + spare_of(hashes_.size()));
  const auto index = static_cast<std::ptrdiff_t>(lower_bound(hash));
  hashes_.insert(hashes_.begin() + index, hash);
  entries_.insert(entries_.begin() + index, Entry{.key = StoredKey(key), .filter = std::move(filter)});
}

FilterPtr Segment::take(std::size_t index) {
  FilterPtr filter = std::move(entries_[index].filter);
  hashes_.erase(hashes_.begin() + static_cast<std::ptrdiff_t>(index));
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
  const std::size_t count = hashes_.size();
  // Several times what an insert leaves free: a key that comes and goes moves nothing.
  const std::size_t spare_max = 3 * spare_of(count);
  if (count == 0)
    reallocate(0);
  else if (hashes_.capacity() - count > spare_max)
    reallocate(count + spare_of(count));
  return filter;
}

std::unique_ptr<Segment> Segment::split() {
  const std::uint64_t next_bit = std::uint64_t{1} << (63 - depth_);
  const auto first_upper = std::partition_point(hashes_.begin(), hashes_.end(),
                                                [&](std::uint64_t hash) { return (hash & next_bit) == 0; });
  const auto kept = first_upper - hashes_.begin();
  ++depth_;
  auto upper = std::make_unique<Segment>(depth_);
  const std::size_t moved = hashes_.size() - static_cast<std::size_t>(kept);
  upper->reallocate(moved + spare_of(moved));
  upper->hashes_.assign(first_upper, hashes_.end());
  std::move(entries_.begin() + kept, entries_.end(), std::back_inserter(upper->entries_));
  hashes_.erase(first_upper, hashes_.end());
  entries_.erase(entries_.begin() + kept, entries_.end());
  reallocate(hashes_.size() + spare_of(hashes_.size()));
  return upper;
}

void Segment::absorb(Segment& upper) {
  const std::size_t count = size() + upper.size();
  reallocate(count + spare_of(count));
  hashes_.insert(hashes_.end(), upper.hashes_.begin(), upper.hashes_.end());
  std::move(upper.entries_.begin(), upper.entries_.end(), std::back_inserter(entries_));
  upper.hashes_.clear();
  upper.entries_.clear();
  --depth_;
}

void Segment::reallocate(std::size_t capacity) {
  std::vector<std::uint64_t> hashes;
  std::vector<Entry> entries;
  hashes.reserve(capacity);
  entries.reserve(capacity);
  hashes.assign(hashes_.begin(), hashes_.end());
  std::move(entries_.begin(), entries_.end(), std::back_inserter(entries));
  hashes_.swap(hashes);
  entries_.swap(entries);
}

}  // namespace sepal::keyspace
