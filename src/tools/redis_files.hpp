// Finds the files of Redis that belong together: an RDB file alone, or an append-only file in one or several
// parts.
//
//     dump.rdb                                  an RDB file
//     appendonly.aof                            commands; or an RDB file with commands behind it
//     appendonlydir/appendonly.aof.manifest     names the parts, one a line: "file NAME seq N type T", where
//     T is
//                                               b (the base, the first of the other two), i (commands), or h
//                                               (old)
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>

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
  std::uint64_t commands_from = 0;  // before it: an RDB file
};

// The parts in the order of Redis. `path` is a file, a manifest, or a folder with one manifest. Blocks: reads
// an RDB file to its end, to find the commands behind it. Errors: damaged, unsupported_version, not_found,
// those of the disk; with a sentence.
Result<std::vector<RedisFile>> redis_files(storage::Disk& disk, const storage::Path& path);

// The names of the parts that a manifest lists, base first. Errors: damaged, with a sentence that does not
// name the file.
Result<std::vector<std::string>> parse_manifest(std::string_view text);

}  // namespace sepal::tools
