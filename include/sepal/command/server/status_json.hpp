// The server's figures as JSON, for the status page (docs/operations/watch.md, "The status page").
#pragma once

#include <sepal/command/server/metrics_text.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

struct WatchedFilters {
  std::uint64_t filters_max = 0;
  std::string_view pattern;
};

// A filter as it was, some time ago.
struct HistoryPoint {
  double age_seconds = 0;
  double fill = 0;
  double false_positive_rate = 0;
};

// One filter, looked at now. A value: nothing in it depends on the filter any more.
struct FilterDetail {
  SeenFilter seen;                      // its measure has all layers
  std::vector<bloom::LayerPlan> plans;  // of the layers, oldest first
  std::vector<std::uint64_t> items;     // that each layer counts
  std::vector<HistoryPoint> history;    // oldest first; empty if the filter is not watched
};

// The second step of a look at a filter: reads at most about `bytes_max` of its bits, outside the gate.
// Called once. Holds the filter.
using FilterLook = std::function<FilterDetail(std::uint64_t bytes_max)>;
// Shared. The first step. Empty if the key names no filter.
[[nodiscard]] FilterLook look_at_filter(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
                                        WallTime now, SteadyTime steady_now);
// Shared. The memory of the filter that the key names; 0 if it names none.
[[nodiscard]] std::uint64_t filter_bytes(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key);

// Shared gate. Takes about a millisecond. Waits for no disk.
[[nodiscard]] std::string server_json(const Services& services, const MetricsMoment& moment,
                                      const WatchedFilters& watched);

// The functions below may be called by any thread.

// A table: the names of its columns, and an array for each filter.
[[nodiscard]] std::string filters_json(std::span<const SeenFilter> filters);
// Takes up to a few milliseconds, for the curve of rates.
[[nodiscard]] std::string filter_json(const FilterDetail& detail);

// What a filter takes, in Sepal, in RedisBloom and by the textbook. Errors: out_of_range and too_large, with
// a sentence.
[[nodiscard]] Result<std::string> plan_json(const bloom::FilterOptions& options);
[[nodiscard]] std::string error_json(std::string_view sentence);

}  // namespace sepal::command
