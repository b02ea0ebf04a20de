// The kernel of 64-bit ARM processors. See neon_kernel.cpp.
#pragma once

#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

// Null on other processors, and where the build must do without.
[[nodiscard]] const Kernel* neon_kernel();

}  // namespace sepal::bloom
