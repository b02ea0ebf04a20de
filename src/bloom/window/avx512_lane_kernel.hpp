// The kernel of processors with AVX-512. See avx512_lane_kernel.cpp.
#pragma once

#include "bloom/window/lane_kernel.hpp"

namespace sepal::bloom {

// Null where the processor lacks the instructions, or the build must do without.
[[nodiscard]] const LaneKernel* avx512_lane_kernel();

}  // namespace sepal::bloom
