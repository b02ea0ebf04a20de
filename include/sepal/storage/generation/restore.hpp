// The way back of a backup: a copy of a data directory takes the place of what is there.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <string_view>

namespace sepal::storage {

// The folder in a data directory in which a restore prepares its copy. Nothing else reads it.
inline constexpr std::string_view restore_folder = "restore.partial";
// While a restore replaces the data, one of these folders is there, and no start takes the directory
// (put_in_place).
inline constexpr std::string_view restore_old = "restore.old";
inline constexpr std::string_view restore_new = "restore.new";

// Refuses a directory in which a restore was cut off while it replaced the data. Blocks. Errors: damaged,
// with the line to type; those of Disk.
Result<void> require_no_begun_restore(Disk& disk, const Path& directory);

// Whether `directory` has entries other than LOCK, the reserve, and folders of a restore. Blocks. Errors:
// those of Disk.
Result<bool> holds_data(Disk& disk, const Path& directory);

// Puts the copy in restore_folder of `directory` in the place of its data. What was there is in a new folder
// then, replaced-1, replaced-2, ..., which is returned; an empty path: nothing was there. After a crash the
// directory has the old data, or the new, or require_no_begun_restore() refuses it, and this may be called
// again with another copy. The caller holds the lock. Blocks. Errors: those of Disk; the restore counts as
// cut off then.
Result<Path> put_in_place(Disk& disk, const Path& directory);

}  // namespace sepal::storage
