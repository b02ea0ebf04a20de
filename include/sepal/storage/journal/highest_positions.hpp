// What a generation demands of its journal.
#pragma once

#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <cstdint>

namespace sepal::storage {

// Where the journal of a generation has to reach: the highest positions behind its cut at which its values
// were taken, by how often their records are applied (value::Repeat); 0 where none were.
struct HighestPositions {
  std::uint64_t once = 0;
  std::uint64_t again = 0;

  void note(value::Repeat repeat, std::uint64_t cut, std::uint64_t position) {
    std::uint64_t& highest = repeat == value::Repeat::again ? again : once;
    if (position > cut) highest = std::max(highest, position);
  }
  // Before the generation became current, the journal was on disk up to here.
  [[nodiscard]] std::uint64_t of_all() const { return std::max(once, again); }
};

}  // namespace sepal::storage
