// Finds the RDB file that has all that Redis has kept: an RDB file, or the base of an append-only file
// without changes since.
//
//     dump.rdb                                  an RDB file
//     appendonlydir/appendonly.aof.manifest     names the parts, one a line: "file NAME seq N type T", where
//                                               T is b (the base), i (commands since), or h (old)
//
// Changes since the base are commands. Only a server can run them, so they are refused
// (docs/decisions/0038).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::tools {

struct RedisFile {
  std::string name;  // for messages
  std::unique_ptr<storage::File> file;
  std::uint64_t byte_count = 0;
  bool of_manifest = false;  // the base of an append-only file, whose other parts are empty
};

// `path` is a file, a manifest, or a folder with one manifest. Blocks. Errors: unsupported_version where
// there are commands; damaged, not_found, those of the disk; with a sentence.
Result<RedisFile> redis_file(storage::Disk& disk, const storage::Path& path);

struct Manifest {
  std::string base;
  std::vector<std::string> increments;
};

// The parts that a manifest lists, without the old ones. Errors: damaged, with a sentence that does not name
// the file.
Result<Manifest> parse_manifest(std::string_view text);

}  // namespace sepal::tools
