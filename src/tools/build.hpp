// `sepal build`: a filter file out of lists of items.
//
//     capacity given                       inputs -------------------------> filter -> file
//     not given, all are plain files       inputs -> count;  inputs -------> filter -> file
//     not given, otherwise                 inputs -> fingerprints on disk -> filter -> file
//
// What comes through a pipe cannot be read again to be counted first, and what is compressed costs more to
// read again than its fingerprints do (docs/decisions/0012). The result does not depend on the number of
// threads (filter/bulk_add.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "item_stream.hpp"
#include "progress.hpp"

namespace sepal::tools {

struct BuildRequest {
  std::vector<std::string> inputs;  // at least one
  storage::Path output;
  std::string key;  // of at most keyspace::key_bytes_max
  ItemStreamOptions items;
  double error_rate = 0.01;
  std::optional<std::uint64_t> capacity;  // of the first layer; none: as many as there are items
  std::uint32_t expansion = 2;            // 0: the filter does not scale
  std::uint64_t seed = 0;
  std::size_t thread_count = 1;
};

struct BuildReport {
  std::uint64_t items_read = 0;
  std::uint64_t items_added = 0;  // that changed a bit
  std::uint64_t capacity = 0;     // of all layers
  std::uint32_t layer_count = 0;
  std::uint64_t file_bytes = 0;
};

// Blocks. On an error, and when a signal ends the program, what was at the output stays as it was. Errors
// name the input and the item that they are about.
Result<BuildReport> build(storage::Disk& disk, const BuildRequest& request, Progress& progress);

}  // namespace sepal::tools
