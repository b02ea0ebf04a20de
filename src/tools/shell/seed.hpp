#pragma once

#include <cstdint>
#include <random>

namespace sepal::tools {

// A random seed for new filters, if the user gave none.
[[nodiscard]] inline std::uint64_t drawn_seed() {
  std::random_device device;
  // A random_device gives 32 bits at a time.
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace sepal::tools
