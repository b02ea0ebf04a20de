// The last step of a tool that makes a filter file.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <span>
#include <string>

#include "tools/shell/progress.hpp"

namespace sepal::tools {

// Checks, before the work begins, that a filter file can be written there: the folder must be writable, and a
// file that is there must be a regular one, and none of the inputs, also by links. Blocks. Errors:
// out_of_range, io, with a sentence.
Result<void> check_output(const storage::Path& path, std::span<const storage::Path> inputs = {});

// A filter that goes into a file. The header is the filter's own, except for the counts of its layers. No
// thread adds to the filter.
struct OutputFilter {
  std::string key;
  bloom::FilterPtr filter;
  bloom::ImageHeader header;
};

// As storage::write_filter_file().
Result<storage::WrittenFile> write_filter(storage::Disk& disk, const storage::Path& path,
                                          const OutputFilter& filter, const storage::ProgressSink& progress);

// The same. A signal that ends the program takes effect after the unfinished file has been removed.
Result<std::uint64_t> write_output(storage::Disk& disk, const storage::Path& path, const OutputFilter& filter,
                                   Progress& progress);

}  // namespace sepal::tools
