// The server's figures as JSON, for the status page and for programs (docs/operations/api.md).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/window/plan.hpp>
#include <sepal/command/server/filter_look.hpp>
#include <sepal/command/server/filter_state.hpp>
#include <sepal/command/server/metrics_text.hpp>
#include <sepal/command/server/recent.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::command {

struct WatchedFilters {
  std::uint64_t filters_max = 0;
  std::string_view pattern = "*";  // as KEYS takes it
  FilterCounts counts{};
  std::optional<SteadyTime> judged_at{};  // as in FiltersSeen
};

// Shared gate. Takes about a millisecond. Waits for no disk.
[[nodiscard]] std::string server_json(const Services& services, const MetricsMoment& moment,
                                      const WatchedFilters& watched, const Recent& recent);

// The functions below may be called by any thread.

// A table: the names of its columns, and an array for each filter. And how many there are.
[[nodiscard]] std::string filters_json(const FiltersSeen& seen);
// Takes up to a few milliseconds, for the curve of rates.
[[nodiscard]] std::string filter_json(const FilterDetail& detail);

// What a filter takes, in Sepal, in RedisBloom and by the textbook. Errors: out_of_range and too_large, with
// a sentence.
[[nodiscard]] Result<std::string> plan_json(const bloom::FilterOptions& options);
// The same for a filter that forgets, in Sepal alone.
[[nodiscard]] Result<std::string> window_plan_json(const bloom::WindowOptions& options);
[[nodiscard]] std::string error_json(std::string_view sentence);

}  // namespace sepal::command
