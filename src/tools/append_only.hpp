// Runs the commands of an append-only file of Redis, as sepald runs them, over a keyspace in memory.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sepal::tools {

struct ReplayCounts {
  std::uint64_t commands = 0;                     // that were run
  std::uint64_t errors = 0;                       // of these, answered an error
  std::string first_error;                        // "BF.ADD: ERR non scaling filter is full"
  std::map<std::string, std::uint64_t> left_out;  // commands that sepald does not have, by upper-case name
  std::uint64_t databases_above = 0;              // commands for databases that sepald does not have
  std::uint64_t cut_bytes = 0;                    // of a last command that is not whole
  std::uint64_t cut_commands = 0;  // of a last transaction that is not whole: none of them was run
};

// Confined. Blocks.
class AppendOnly {
 public:
  // Keys that are past their deadline at `now` are removed as commands come upon them.
  AppendOnly(keyspace::Keyspace& keyspace, WallTime now);
  ~AppendOnly();

  // Runs the commands from an offset of a file to its end. Lines that begin with '#' are notes of Redis. The
  // database is that of the last SELECT; files follow each other as one. Errors: damaged where bytes are no
  // commands, with the name of the file and the offset; those of the disk.
  Result<void> run(storage::File& file, const std::string& name, std::uint64_t offset);
  [[nodiscard]] ReplayCounts counts() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sepal::tools
