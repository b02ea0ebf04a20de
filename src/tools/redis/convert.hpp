// `sepal convert`: makes filter files, or a data directory, of an RDB file of Redis.
//
//     RDB file -> check;  RDB file -> output
//
// Bits go from file to file, so memory does not depend on the size of a filter or a string. A filter file
// holds a Bloom filter, so cuckoo filters, those with a window, and strings become part of a data directory
// only.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>
#include <string>

#include "tools/redis/moved_keys.hpp"
#include "tools/shell/progress.hpp"

namespace sepal::tools {

struct ConvertRequest {
  storage::Path input;  // an RDB file, a manifest, or a folder with one: see redis_files.hpp
  enum class Output : std::uint8_t { nothing, data_directory, filter_files };
  Output output = Output::nothing;
  storage::Path folder;    // of the output; it need not be there
  std::uint64_t seed = 0;  // for filters that sepald makes later
  WallTime now{};
};

struct ConvertReport {
  MovedKeys keys;
};

// Blocks. Nothing is written before the RDB file was read to its end and its checksum found right. Errors:
// those of redis_file(), in_use (the data directory has data, or a filter file is there already), those of
// the disk; with a sentence.
Result<ConvertReport> convert(storage::Disk& disk, const ConvertRequest& request, Progress& progress);

// The name of a filter file for a key: "0-users%3a7.sepal". Bytes that a name should not have stand as "%3a".
// A long name ends in a digest of the key.
[[nodiscard]] std::string filter_file_name(std::uint32_t database, std::string_view key);

}  // namespace sepal::tools
