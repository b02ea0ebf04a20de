// `sepal merge`: one filter file out of several of the same seed and shape, which holds what any of them
// does.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "progress.hpp"

namespace sepal::tools {

struct MergeRequest {
  std::vector<storage::Path> inputs;  // at least one
  storage::Path output;
  std::optional<std::string> key;  // none: that of the first input
};

struct MergeReport {
  // How many different items the result holds is not known: what two inputs share cannot be told from what
  // they do not. This is what the share of set bits says, no less than the largest input's count and no more
  // than the sum of all.
  std::uint64_t item_estimate = 0;
  std::uint64_t item_sum = 0;
  std::uint64_t capacity = 0;
  std::uint64_t file_bytes = 0;
};

// Blocks. Memory: two filters. Errors: out_of_range when the filters differ or when together they hold more
// items than they were planned for, so that the promised error rate would not hold; those of
// storage::read_filter_file() and write_filter_file().
Result<MergeReport> merge(storage::Disk& disk, const MergeRequest& request, Progress& progress);

}  // namespace sepal::tools
