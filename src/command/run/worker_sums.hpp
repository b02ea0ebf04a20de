// Sums over the counters of all workers, for INFO, LATENCY and the metrics. Any thread, unless a member says
// otherwise.
#pragma once

#include <sepal/command/run/context.hpp>
#include <sepal/metrics/counters.hpp>

#include <array>
#include <cstdint>

#include "command/run/error_counts.hpp"

namespace sepal::command {

[[nodiscard]] std::uint64_t sum_of(const Services& services, metrics::Counter WorkerStats::*counter);
[[nodiscard]] std::uint64_t greatest_of(const Services& services, metrics::RecentPeak WorkerStats::*peak);

// One row's counters.
struct RowSums {
  std::uint64_t calls = 0;
  std::uint64_t nanoseconds = 0;
  std::uint64_t rejected = 0;
  std::uint64_t failed = 0;

  [[nodiscard]] bool any() const { return calls + rejected + failed > 0; }
};
[[nodiscard]] RowSums sums_of(const Services& services, const CommandSpec& row);

// Items that were refused for this reason.
[[nodiscard]] std::uint64_t sum_of(const Services& services, RefusedAdd reason);

// How long the calls of one row took that ran while latency-tracking was on.
struct CallCounts {
  std::array<std::uint64_t, metrics::Histogram::bucket_count> buckets{};
  std::uint64_t total = 0;
  std::uint64_t nanoseconds = 0;  // of all together
};
[[nodiscard]] CallCounts call_counts(const Services& services, const CommandSpec& row);

// The bound below which this share of the calls lies, in nanoseconds. 0 if there are none.
[[nodiscard]] std::uint64_t percentile_of(
    const std::array<std::uint64_t, metrics::Histogram::bucket_count>& buckets, double share);

// Errors by their first word.
[[nodiscard]] WorkerStats::ErrorCounts::Map error_counts(const Services& services);

}  // namespace sepal::command
