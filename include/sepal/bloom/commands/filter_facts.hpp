// What BF.STATS and the metrics tell about a filter.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/measure.hpp>
#include <sepal/bloom/filter/usage.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace sepal::bloom {

// The shape and the counts of a filter at one moment. A value, but the views are valid only as long as the
// filter lives.
struct FilterFacts {
  bloom::FilterOptions options;
  std::uint64_t capacity = 0;            // items, over all layers
  std::uint64_t item_count = 0;          // adds that answered 1
  std::uint64_t byte_count = 0;          // of memory
  std::uint64_t saved_bytes = 0;         // what a save writes of it
  std::vector<bloom::LayerView> layers;  // oldest first
  // Nothing for a filter that has no counters of its own.
  std::optional<bloom::Usage::Sums> usage;

  // Until the newest layer is full, at the rate of the last minute. Nothing when the rate is unknown or 0.
  [[nodiscard]] std::optional<double> seconds_until_full() const;
};

// Shared gate. Does not look at the bits: bloom::measure(facts.layers, ...) does.
[[nodiscard]] FilterFacts facts_of(const bloom::Filter& filter, SteadyTime now);

}  // namespace sepal::bloom
