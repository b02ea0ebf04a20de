// `sepal backup --keep N FOLDER`: backups beside each other in one folder, of which the newest are kept.
//
//     FOLDER/LOCK                              held while a backup is made and old ones are removed
//     FOLDER/backup-20261129T094500Z           a backup, named after the time (UTC) at which it began
//     FOLDER/backup-20261129T094500Z.partial   one that is being made or removed, or was when its program was
//                                              killed: LOCK, and the files in `data`
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sepal::tools {

// Added to the name of a backup that is not whole.
inline constexpr const char* partial_suffix = ".partial";
// In such a folder: the files of the backup.
inline constexpr const char* partial_data = "data";

struct KeptReport {
  std::size_t kept = 0;  // the new one included
  std::size_t removed = 0;
  // Names with the form of a backup that were not touched: backups of other data directories, links, what a
  // sepald was started on, and what has other files in it.
  std::vector<std::string> strange;
};

// Confined. Blocks.
class KeptBackups {
 public:
  // Makes the folder if it is missing (its parent must be there), locks it, and removes what killed programs
  // left in it. Errors: in_use, where it is a data directory or a backup, or another program keeps backups in
  // it; those of Disk.
  static Result<KeptBackups> open(storage::Path folder, WallTime now);

  // The place of the next backup. Its name stands behind those of all others, also where the clock was set
  // back.
  [[nodiscard]] const storage::Path& next() const { return next_; }

  // Call when next() is whole. Removes the backups of the same data directory but the newest `keep`, at least
  // 1, of which next() is one. Errors: those of Disk; then some of them are there still.
  Result<KeptReport> remove_old(std::size_t keep);

 private:
  KeptBackups() = default;
  std::unique_ptr<storage::Disk> disk_ = storage::make_posix_disk();
  std::unique_ptr<storage::DirectoryLock> lock_;
  storage::Path folder_;
  storage::Path next_;
};

}  // namespace sepal::tools
