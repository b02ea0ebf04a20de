// The report of `sepal plan`: what a filter would take and promise, before anybody reserves it.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sepal::tools {

struct PlanRequest {
  double error_rate = 0.01;
  std::uint64_t capacity = 100;
  std::uint32_t expansion = 2;  // 0: the filter does not scale
};

// More than any machine holds, and few enough that no sum of sizes wraps.
inline constexpr std::uint64_t filter_bytes_max = std::uint64_t{1} << 50;
// Of the filters that tools make. The layers are those of a server that was told nothing else.
inline constexpr filter::FilterLimits filter_limits{.bytes_max = filter_bytes_max};

// Errors: out_of_range, with a sentence.
Result<void> check_options(const filter::FilterOptions& options);
// What a filter above filter_bytes_max is refused with.
[[nodiscard]] Error fits_nowhere();

// Lines without their ends. Errors: out_of_range for any of the three, with a sentence; too_large when no
// machine could hold the filter.
Result<std::vector<std::string>> plan_report(const PlanRequest& request);

}  // namespace sepal::tools
