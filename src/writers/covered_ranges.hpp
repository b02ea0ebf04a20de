// Which bytes of an upload have come, in pieces of any order.
#pragma once

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace sepal::writers {

// Kept as ranges [begin, end). Ranges that overlap or touch are joined at once, so there are as few ranges
// as there are separate runs, and their lengths add up to the bytes that have come. A byte that comes twice
// counts once.
class CoveredRanges {
 public:
  // Pieces come in order, or from a few places at once. A piece that would leave more gaps is refused,
  // because gaps take memory.
  static constexpr std::size_t ranges_max = 1024;

  // Adds bytes [begin, end). False, with nothing changed, where they would leave too many gaps.
  [[nodiscard]] bool add(std::uint64_t begin, std::uint64_t end) {
    if (begin >= end) return true;
    // The first range that the new one may touch: the one behind `begin`, or the one before it if that
    // reaches `begin`.
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) --next;
    // A piece that touches a range makes no further range, so it is taken at the limit as well.
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

}  // namespace sepal::writers
