// The kernel that runs everywhere, and does what the others leave.
#pragma once

#include "bloom/window/lane_kernel.hpp"

namespace sepal::bloom {

[[nodiscard]] const LaneKernel& plain_lane_kernel();

}  // namespace sepal::bloom
