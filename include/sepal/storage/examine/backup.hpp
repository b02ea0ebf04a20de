// Copies of data directories: backups. The way back is in sepal/storage/generation/restore.hpp.
//
// A backup is a data directory: `sepal verify` checks it, and a sepald could start on a copy of it.
//
//     CURRENT, SEED, generation-.../    the newest generation
//     journal-...                       the journal from the generation's cut to the backup's moment
//     adopted-...                       the filters that came whole in between
//     SYNCED                            says that the journal goes that far, so a lost part of it is noticed
//
// While a daemon uses the directory, each save removes the generation, the segments and the files that it
// replaces. So copy_data() first opens all files that it needs, or links them: what is open or has a second
// name can still be read when its first name is gone. Then it looks whether the generation is still the
// current one. If it is, no file was removed before it was opened. The journal grows meanwhile, but its bytes
// before a synced position never change again.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace sepal::storage {

struct CopyOrder {
  Path from;  // a data directory
  Path into;  // a folder that is not there yet
  // The moment of the copy: a position of the journal that was synced after the current generation had been
  // saved. Empty: no daemon uses `from`, and the whole journal is copied.
  std::optional<std::uint64_t> until;
  // Whether files that never change may be linked, so that they take no room on the same file system.
  bool may_link = false;
};

struct CopyReport {
  std::string generation;  // empty: nothing has been saved yet
  WallTime saved_at{};     // the cut of the generation
  std::uint64_t keys = 0;
  std::uint64_t items = 0;          // of the generation
  std::uint64_t bytes = 0;          // in all files
  std::uint64_t linked_bytes = 0;   // of these, in files that were linked
  std::uint64_t journal_bytes = 0;  // of these, in the journal
};

// The copy, synced. After an error `into` may hold a part of it. Memory: a buffer, and a descriptor for each
// file. Blocks. Errors: in_use where `into` is there, or a save replaced the generation meanwhile (try
// again); damaged; those of Disk.
Result<CopyReport> copy_data(Disk& disk, const CopyOrder& order, const ProgressSink& progress);

// Makes an error of the first part of `directory` that does not verify as a start needs it. Memory: as
// verify_directory. Blocks. Errors: damaged (also for a file of a newer version), those of Disk.
Result<void> require_whole(Disk& disk, const Path& directory, const ProgressSink& progress);

}  // namespace sepal::storage
