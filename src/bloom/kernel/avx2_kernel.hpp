// The kernel of processors with AVX2. See avx2_kernel.cpp.
#pragma once

#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

// Null where the processor lacks the instructions, or the build must do without.
[[nodiscard]] const Kernel* avx2_kernel();

}  // namespace sepal::bloom
