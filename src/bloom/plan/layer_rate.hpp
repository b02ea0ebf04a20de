// The error rate of a layer's shape: the arithmetic under the planner. See layer_rate.cpp for the formula.
#pragma once

#include <cstdint>

namespace sepal::bloom {

// Real numbers where a plan has integers, because the planner solves for them.
struct LayerShape {
  double block_count = 1;  // at least 1
  double block_bits = 64;
  std::uint32_t probe_count = 1;
};

// The rate of "maybe" answers for an absent item. `mean` is over all sets of items. `deviation` is how far
// one filter's own rate scatters around it, because its items happened to fall as they did.
struct LayerRate {
  double mean = 0;
  double deviation = 0;
};

LayerRate layer_rate(const LayerShape& shape, double item_count);

}  // namespace sepal::bloom
