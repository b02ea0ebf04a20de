// `sepal build`: makes a filter file from lists of items.
//
//     capacity given                       inputs -------------------------> filter -> file
//     not given, all are plain files       inputs -> count;  inputs -------> filter -> file
//     not given, otherwise                 inputs -> fingerprints on disk -> filter -> file
//
// A pipe cannot be read twice, so its items cannot be counted first. Reading compressed data twice costs more
// than writing and reading the fingerprints (docs/decisions/0012). The result does not depend on the number
// of threads (filter/bulk_add.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/build/item_stream.hpp"
#include "tools/shell/progress.hpp"

namespace sepal::tools {

struct BuildRequest {
  std::vector<std::string> inputs;  // at least one
  storage::Path output;
  std::string key;  // at most keyspace::key_bytes_max bytes
  ItemStreamOptions items;
  double error_rate = 0.01;
  std::optional<std::uint64_t> capacity;  // the first layer's; empty: the number of items in the inputs
  std::uint32_t expansion = 2;            // 0: the filter does not scale
  std::uint64_t seed = 0;
  std::size_t thread_count = 1;
};

struct BuildReport {
  std::uint64_t items_read = 0;
  std::uint64_t items_added = 0;  // items that changed a bit
  std::uint64_t capacity = 0;     // all layers together
  std::uint32_t layer_count = 0;
  std::uint64_t lines_with_return = 0;  // with a carriage return at their end, which became part of the item
  std::uint64_t file_bytes = 0;
};

// Blocks. After an error, or a signal that ends the program, a file that was at the output before is
// unchanged. Errors name the input and the item.
Result<BuildReport> build(storage::Disk& disk, const BuildRequest& request, Progress& progress);

}  // namespace sepal::tools
