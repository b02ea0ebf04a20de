// `sepal merge`: makes one filter file from several of the same seed and shape. The result holds the items of
// all of them.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/shell/progress.hpp"

namespace sepal::tools {

struct MergeRequest {
  std::vector<storage::Path> inputs;  // at least one
  storage::Path output;
  std::optional<std::string> key;  // empty: the key of the first input
};

struct MergeReport {
  // An estimate of how many different items the result holds. The bits do not tell which items the inputs
  // share, so the estimate comes from the share of set bits. It is at least the largest input's count and at
  // most the sum of all counts.
  std::uint64_t item_estimate = 0;
  std::uint64_t item_sum = 0;
  std::uint64_t capacity = 0;
  std::uint64_t file_bytes = 0;
};

// Blocks. Memory: two filters. Errors: out_of_range if the filters differ, or if together they hold more
// items than they were planned for (the result would not keep the promised error rate); those of
// storage::read_filter_file() and write_filter_file().
Result<MergeReport> merge(storage::Disk& disk, const MergeRequest& request, Progress& progress);

}  // namespace sepal::tools
