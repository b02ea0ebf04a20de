#include "command/run/worker_sums.hpp"

#include <algorithm>
#include <numeric>

#include "command/table/command_index.hpp"

namespace sepal::command {

std::uint64_t sum_of(const Services& services, metrics::Counter WorkerStats::*counter) {
  std::uint64_t sum = 0;
  for (const WorkerStats& worker : services.workers) sum += (worker.*counter).get();
  return sum;
}

std::uint64_t sum_of(const Services& services, RefusedAdd reason) {
  std::uint64_t sum = 0;
  for (const WorkerStats& worker : services.workers)
    sum += worker.adds_refused[static_cast<std::size_t>(reason)].get();
  return sum;
}

std::uint64_t greatest_of(const Services& services, metrics::RecentPeak WorkerStats::*peak) {
  std::uint64_t greatest = 0;
  for (const WorkerStats& worker : services.workers) greatest = std::max(greatest, (worker.*peak).get());
  return greatest;
}

RowSums sums_of(const Services& services, const CommandSpec& row) {
  RowSums sums;
  const std::size_t index = command_row(row);
  for (const WorkerStats& worker : services.workers) {
    const CommandStats& stats = worker.commands[index];
    sums.calls += stats.calls.get();
    sums.nanoseconds += stats.nanoseconds.get();
    sums.rejected += stats.rejected.get();
    sums.failed += stats.failed.get();
  }
  return sums;
}

// The total is the sum of the values that were read, and not a counter of its own. So it agrees with the
// buckets while workers count, and readers may go through the buckets until they have seen the total.
CallCounts call_counts(const Services& services, const CommandSpec& row) {
  CallCounts counts;
  const std::size_t index = command_row(row);
  for (const WorkerStats& worker : services.workers) {
    const CommandStats& stats = worker.commands[index];
    const std::uint64_t untimed = stats.untimed_nanoseconds.get();
    // CONFIG RESETSTAT on another worker sets the two to zero one after the other.
    counts.nanoseconds += std::max(stats.nanoseconds.get(), untimed) - untimed;
    for (std::size_t bucket = 0; bucket < counts.buckets.size(); ++bucket) {
      const std::uint64_t count = stats.latency.count(bucket);
      counts.buckets[bucket] += count;
      counts.total += count;
    }
  }
  return counts;
}

std::uint64_t percentile_of(const std::array<std::uint64_t, metrics::Histogram::bucket_count>& buckets,
                            double share) {
  const auto total = static_cast<double>(std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0}));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    seen += buckets[bucket];
    if (seen > 0 && static_cast<double>(seen) >= share * total)
      return metrics::Histogram::upper_bound(bucket);
  }
  return 0;
}

WorkerStats::ErrorCounts::Map error_counts(const Services& services) {
  WorkerStats::ErrorCounts::Map sums;
  for (const WorkerStats& worker : services.workers) worker.errors->add_to(sums);
  return sums;
}

}  // namespace sepal::command
