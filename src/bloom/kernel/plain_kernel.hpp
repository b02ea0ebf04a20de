// The kernel that runs everywhere. See plain_kernel.cpp.
#pragma once

#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

[[nodiscard]] const Kernel& plain_kernel();

}  // namespace sepal::bloom
