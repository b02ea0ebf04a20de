// `sepal convert`: makes filter files, or a data directory, of an RDB file or an append-only file of Redis.
//
//     RDB file                            file -> check;  file -> output        bits go from file to file
//     with commands behind it, an
//     append-only file, its manifest      base -> keyspace, commands -> keyspace -> output
//
// Commands change keys at any place of their bits, so the second way has all filters and strings in memory.
// A filter file holds a filter, so strings become part of a data directory only.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "append_only.hpp"
#include "moved_keys.hpp"
#include "progress.hpp"

namespace sepal::tools {

struct ConvertRequest {
  storage::Path input;  // a file, a manifest, or a folder with one
  enum class Output : std::uint8_t { nothing, data_directory, filter_files };
  Output output = Output::nothing;
  storage::Path folder;    // of the output; it need not be there
  std::uint64_t seed = 0;  // for filters that sepald makes later, and those that commands make
  WallTime now{};
};

struct ConvertReport {
  MovedKeys keys;
  std::optional<ReplayCounts> replay;  // where there were commands
};

// Blocks. Nothing is written before the RDB file was read to its end and its checksum found right. Errors:
// damaged, unsupported_version, in_use (the data directory has data), those of the disk; with a sentence.
Result<ConvertReport> convert(storage::Disk& disk, const ConvertRequest& request, Progress& progress);

// The name of a filter file for a key: "0-users%3a7.sepal". Bytes that a name should not have stand as "%3a".
// A long name ends in a digest of the key.
[[nodiscard]] std::string filter_file_name(std::uint32_t database, std::string_view key);

}  // namespace sepal::tools
