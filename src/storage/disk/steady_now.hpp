// The clock with which this module measures durations.
#pragma once

#include <sepal/base/clock.hpp>

namespace sepal::storage {

[[nodiscard]] inline SteadyTime steady_now() {
  return std::chrono::steady_clock::now();
}

}  // namespace sepal::storage
