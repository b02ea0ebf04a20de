// The end of a tool that makes a filter file.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/filter_file.hpp>

#include "progress.hpp"

namespace sepal::tools {

// Whether a filter file may go there, to be asked before there is one: what is there already has to be a
// file, and the folder one to write into. Blocks. Errors: out_of_range, io, with a sentence.
Result<void> check_output(const storage::Path& path);

// As storage::write_filter_file(). A signal that ends the program does so when nothing is left behind.
Result<std::uint64_t> write_output(storage::Disk& disk, const storage::Path& path,
                                   const storage::FilterFile& file, Progress& progress);

}  // namespace sepal::tools
