// The last step of a tool that makes a filter file.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <span>

#include "tools/shell/progress.hpp"

namespace sepal::tools {

// Checks, before the work begins, that a filter file can be written there: the folder must be writable, and a
// file that is there must be a regular one, and none of the inputs, also by links. Blocks. Errors:
// out_of_range, io, with a sentence.
Result<void> check_output(const storage::Path& path, std::span<const storage::Path> inputs = {});

// Like storage::write_filter_file(). A signal that ends the program takes effect after the unfinished file
// has been removed.
Result<std::uint64_t> write_output(storage::Disk& disk, const storage::Path& path,
                                   const storage::FilterFile& file, Progress& progress);

}  // namespace sepal::tools
