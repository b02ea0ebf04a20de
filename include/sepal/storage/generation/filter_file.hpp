// One filter in a file of its own. `sepal build`, `sepal merge` and BF.EXPORT write such files, and a data
// directory has one for each filter that came whole (adopted_files.hpp). It has the form of a generation's
// filter file with one record (docs/formats.md). Its own checksums cover it; the journal holds the seal of an
// adopted file.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/generation/streamed_filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::storage {

struct FilterFile {
  std::string key;  // may be empty: an import names the value
  value::ValuePtr value;
  std::uint64_t seal = 0;  // over all checksums in it
};

struct WrittenFile {
  std::uint64_t byte_count = 0;
  std::uint64_t seal = 0;  // over all checksums in it
};

// Written aside, synced and renamed: as replace_file() promises. A crash leaves a file for which
// is_aside_name() is true. Blocks. The file has only a part of what other threads add meanwhile. Errors:
// those of the disk; io when `progress` gave up, with no file left behind.
Result<WrittenFile> write_filter_file(Disk& disk, const Path& target, std::string_view key,
                                      const value::FrozenView& value, const ProgressSink& progress);

// The same for a filter that is in no memory. The file has its key, and neither its database nor its
// deadline. Memory: one fixed buffer. Errors: those of its bits as well.
Result<WrittenFile> write_filter_file(Disk& disk, const Path& target, const StreamedFilter& filter,
                                      const ProgressSink& progress);

// Verifies every checksum. Blocks; memory: the filter, which is within `limits`, and one fixed buffer.
// Errors: damaged, out_of_range (it holds no filter, or several), unsupported_version, too_large,
// out_of_memory, and those of the disk; the sentence begins with the file's name.
Result<FilterFile> read_filter_file(Disk& disk, const Path& path, const value::Limits& limits,
                                    const ProgressSink& progress);
// The same for a file that is open, and has this name.
Result<FilterFile> read_filter_file(File& file, const Path& name, const value::Limits& limits,
                                    const ProgressSink& progress);

}  // namespace sepal::storage
