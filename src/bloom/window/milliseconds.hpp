// Times of a window: milliseconds since 1970.
#pragma once

#include <sepal/base/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sepal::bloom {

// 0 before 1970.
[[nodiscard]] inline std::uint64_t milliseconds_of(WallTime time) {
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(since, 0));
}

}  // namespace sepal::bloom
