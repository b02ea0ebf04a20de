// Which bytes of an upload have come, in pieces of any order.
#pragma once

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace sepal::keyspace {

class CoveredRanges {
 public:
  // Pieces come in order, or from a few places at once. A piece that would leave more gaps is refused,
  // because gaps take memory.
  static constexpr std::size_t ranges_max = 1024;

  // Adds bytes [begin, end). False, with nothing changed, where they would leave too many gaps.
  [[nodiscard]] bool add(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return true;
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
    const bool joins = next != ranges_.end() && next->first <= end;
    if (!joins && ranges_.size() >= ranges_max) return false;
    while (next != ranges_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      SEPAL_ASSERT(next->second - next->first <= byte_count_, "a range is longer than all ranges together");
      byte_count_ -= next->second - next->first;
      next = ranges_.erase(next);
    }
    ranges_.emplace_hint(next, begin, end);
    byte_count_ += end - begin;
    return true;
  }
  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_; }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end; none touches another
  std::uint64_t byte_count_ = 0;
};

}  // namespace sepal::keyspace
