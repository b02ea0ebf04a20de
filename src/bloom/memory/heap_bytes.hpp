// What an allocation really takes, so that a million small filters are accounted for at their true size.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sepal::bloom {

// As glibc allocates: eight bytes more for each allocation, in steps of sixteen, and no fewer than two steps.
[[nodiscard]] constexpr std::uint64_t heap_footprint(std::uint64_t bytes) {
  constexpr std::uint64_t own_bytes = 8;
  constexpr std::uint64_t step_bytes = 16;
  return std::max(2 * step_bytes, (bytes + own_bytes + step_bytes - 1) / step_bytes * step_bytes);
}

}  // namespace sepal::bloom
