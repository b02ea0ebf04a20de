// The kernel of processors with AVX-512. See avx512_kernel.cpp.
#pragma once

#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

// Null where the processor lacks the instructions, or the build must do without.
[[nodiscard]] const Kernel* avx512_kernel();

}  // namespace sepal::bloom
