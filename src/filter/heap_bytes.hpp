// What an allocation really takes, so that a million small filters are accounted for as what they are.
#pragma once

#include <cstdint>

namespace sepal::filter {

// As glibc has it: eight bytes of its own for each, in steps of sixteen.
[[nodiscard]] constexpr std::uint64_t heap_footprint(std::uint64_t bytes) {
  constexpr std::uint64_t own_bytes = 8, step_bytes = 16;
  return (bytes + own_bytes + step_bytes - 1) / step_bytes * step_bytes;
}

}  // namespace sepal::filter
