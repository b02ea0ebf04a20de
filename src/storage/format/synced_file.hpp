// SYNCED: a second witness of how far the journal was on disk. The journal alone cannot tell a lost last
// segment from one that was never used.
//
//     SYNCED  =  slot  zeros  slot          each slot in a block of its own
//
// The slots are written in turn, in place, each followed by a sync. So a torn write leaves the other slot,
// which says less but nothing wrong. A new file is written aside with both slots and renamed. After an error
// the file is made anew in the same way, because the state of its slots is not known then.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace sepal::storage {

// What the file says.
struct SyncedMark {
  std::uint64_t segment_number = 0;  // the newest segment that has something on disk
  std::uint64_t first_position = 0;  // where that segment begins
  std::uint64_t position = 0;        // everything before it is on disk
  std::uint64_t identity = 0;        // of the data directory; 0: an earlier version wrote the file

  friend bool operator==(const SyncedMark&, const SyncedMark&) = default;
};

[[nodiscard]] Path synced_path(const Path& directory);

// Empty if there is no such file: earlier versions wrote none. Blocks. Errors: damaged and
// unsupported_version, with file and advice; those of Disk.
Result<std::optional<SyncedMark>> read_synced(Disk& disk, const Path& path);

// Confined. Blocks.
class SyncedFile {
 public:
  SyncedFile(Disk& disk, Path directory) : disk_(disk), directory_(std::move(directory)) {}

  // Once this succeeds, `mark` survives power loss. After an error the file says what it said before, or
  // `mark`. Errors: those of Disk.
  Result<void> write(const SyncedMark& mark);
  // The next write makes the file anew: it may lie in a directory that was moved.
  void forget() { file_ = nullptr; }

 private:
  Result<void> make(const SyncedMark& mark);
  Result<void> write_slot(std::size_t slot, const SyncedMark& mark);

  Disk& disk_;
  Path directory_;
  std::unique_ptr<File> file_;  // null: the file has to be made
  std::size_t next_slot_ = 0;
};

}  // namespace sepal::storage
