// One filter in a file of its own, outside of any data directory: what `sepal build` and `sepal merge` leave.
// It is a filter file as a generation has them, with one record (docs/formats.md); nothing seals it but its
// own checksums.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/image.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace sepal::storage {

struct FilterFile {
  std::string key;  // may be empty: whoever imports the filter names it
  keyspace::FilterPtr filter;
  // As it is to be written: the filter's own but for the counts of its layers.
  filter::ImageHeader header;
  // Those of the header, where others may add to the filter and grow it; else empty.
  std::vector<filter::LayerView> layers{};
  std::uint64_t seal = 0;  // of the file that it was read from
};

struct WrittenFile {
  std::uint64_t byte_count = 0;
  std::uint64_t seal = 0;  // over all checksums in it
};

// Written aside, synced and renamed: as replace_file() promises. Blocks. What others add meanwhile is in the
// file in part. Errors: those of the disk; io when `progress` gave up, with
// nothing left behind.
Result<WrittenFile> write_filter_file(Disk& disk, const Path& target, const FilterFile& file,
                                      const ProgressSink& progress);

// Verifies every checksum. Blocks; memory: the filter, which is within `limits`, and one fixed buffer.
// Errors: damaged, out_of_range (it holds no filter, or several), unsupported_version, too_large,
// out_of_memory, and those of the disk; the sentence begins with the file's name.
Result<FilterFile> read_filter_file(Disk& disk, const Path& path, const filter::FilterLimits& limits,
                                    const ProgressSink& progress);
// The same of a file that is open, and has this name.
Result<FilterFile> read_filter_file(File& file, const Path& name, const filter::FilterLimits& limits,
                                    const ProgressSink& progress);

}  // namespace sepal::storage
