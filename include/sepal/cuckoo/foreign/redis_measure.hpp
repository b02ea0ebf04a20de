// What the slots of a cuckoo filter of RedisBloom say about it: how full it is, and how often it answers 1
// for an absent item, now.
#pragma once

#include <sepal/cuckoo/foreign/redis_table.hpp>

#include <cstdint>
#include <vector>

namespace sepal::cuckoo {

struct RedisMeasure {
  std::vector<double> fills;       // of the layers, oldest first: the share of the slots that are taken
  double fill = 0;                 // of all layers
  double false_positive_rate = 0;  // in [0, 1]
};

// Reads about `bytes_max` of the slots, which the layers share: the first ones of each. Items are spread
// evenly over the slots of a layer. No other thread changes the filter meanwhile.
[[nodiscard]] RedisMeasure measure(const RedisTable& table, std::uint64_t bytes_max);

}  // namespace sepal::cuckoo
