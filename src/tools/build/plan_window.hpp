// The report of `sepal plan --window` and `--last`: a filter that forgets by itself.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/window/plan.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/shell/number.hpp"

namespace sepal::tools {

// The different items of a window that come at this pace: at least 1. Errors: too_large.
Result<std::uint64_t> items_of_window(const Pace& pace, std::uint64_t milliseconds);

// "1 hour 15 minutes", "7 days", "0.5 seconds".
[[nodiscard]] std::string time_text(std::uint64_t milliseconds);

// The lines, without line feeds. Errors: out_of_range for any option, with a sentence; too_large if no
// machine could hold the filter.
Result<std::vector<std::string>> window_report(const bloom::WindowOptions& options);

}  // namespace sepal::tools
