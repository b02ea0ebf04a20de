// The report of `sepal plan --nodes`: a filter that is divided over the nodes of a cluster.
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/build/plan.hpp"

namespace sepal::tools {

// A filter in parts, of which each is a filter of its own. Clients choose the part by a hash of the item.
struct Parts {
  std::uint64_t count = 0;     // a power of two
  std::uint64_t capacity = 0;  // of one part: its share of the items, and what chance may add to it
  std::uint64_t bytes = 0;     // of the bitmap of one part
};

// There are as many parts as keep each below 256 MiB, so that a part moves between nodes in a moment; at
// least 64, at most 4096. Errors: those of plan_report().
Result<Parts> divide(const PlanRequest& request);

// The lines, without line feeds. Errors: those of divide().
Result<std::vector<std::string>> nodes_report(const PlanRequest& request);

}  // namespace sepal::tools
