// Finds the generation that a start begins with. CURRENT may be missing for three reasons: nothing was saved
// yet, the very first save crashed, or CURRENT was lost.
//
//     no CURRENT, and                               then
//     no generation has a MANIFEST                  nothing was saved; the folders are remains
//     FIRST names the one with a MANIFEST:
//       all of it verifies                          the first save had all but ended: it is the current one
//       not all of it does                          remains of the first save
//     any other generation has a MANIFEST           CURRENT was lost: damage
//
// FIRST is on disk before the first save makes a MANIFEST, and is removed when CURRENT is on disk. After a
// power failure during the first save, the MANIFEST may be there although names of other files are not. So a
// start reads all of that generation before it trusts it.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace sepal::storage {

struct CurrentGeneration {
  std::optional<std::uint64_t> number{};  // empty: nothing has been saved
  bool unnamed = false;                   // CURRENT does not name it yet
};

// Reads all of a generation that FIRST names. Blocks. Errors: damaged and unsupported_version, with file and
// advice; those of Disk.
Result<CurrentGeneration> find_current_generation(Disk& disk, const Path& directory);

// Refuses (not_found) a directory that has nothing by which a data directory is known: for tools, which would
// find an empty one in any folder. Blocks. Errors: also those of Disk.
Result<void> require_data_directory(Disk& disk, const Path& directory);

// The numbers of all generations that are there, lowest first. Blocks. Errors: those of Disk.
Result<std::vector<std::uint64_t>> list_generations(Disk& disk, const Path& directory);

// The newest generation whose MANIFEST verifies; empty if there is none. Blocks. Errors: those of Disk.
Result<std::optional<std::uint64_t>> newest_whole_generation(Disk& disk, const Path& directory);

}  // namespace sepal::storage
