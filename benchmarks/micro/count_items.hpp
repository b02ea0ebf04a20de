// The figure of all rows with batches.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>

namespace bench {

// The time for one item, for any size of the batch.
inline void count_items(benchmark::State& state, std::uint64_t items) {
  state.counters["per_item"] =
      benchmark::Counter(static_cast<double>(items),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

}  // namespace bench
