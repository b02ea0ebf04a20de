// The kernel of processors with AVX-512. See avx512_kernel.cpp.
#pragma once

#include "kernels.hpp"

namespace sepal::filter {

// Null where the processor lacks the instructions, or the build must do without.
[[nodiscard]] const Kernel* avx512_kernel();

}  // namespace sepal::filter
