// The report of `sepal plan`: the memory and the error rate of a filter, before a client reserves it.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sepal::tools {

struct PlanRequest {
  double error_rate = 0.01;
  std::uint64_t capacity = 100;
  std::uint32_t expansion = 2;  // 0: the filter does not scale
};

// More bytes than any machine has, and few enough that no sum of sizes wraps.
inline constexpr std::uint64_t filter_bytes_max = std::uint64_t{1} << 50;
// The limits of the filters that tools make. The limit of layers is a server's default.
inline constexpr bloom::FilterLimits filter_limits{.bytes_max = filter_bytes_max};
// The limits of the filters that tools take over. The limit of layers is the highest that a server may have.
inline constexpr bloom::FilterLimits moved_limits{.bytes_max = filter_bytes_max,
                                                  .layers_max = bloom::filter_layers_max};

// Errors: out_of_range, with a sentence.
Result<void> check_options(const bloom::FilterOptions& options);
// Errors: those of bloom::plan_layer(). The options are checked.
Result<bloom::LayerPlan> plan_first_layer(const PlanRequest& request);
// The error for a filter above filter_bytes_max.
[[nodiscard]] Error fits_nowhere();

// The lines, without line feeds. Errors: out_of_range for any member of the request, with a sentence;
// too_large if no machine could hold the filter.
Result<std::vector<std::string>> plan_report(const PlanRequest& request);

}  // namespace sepal::tools
