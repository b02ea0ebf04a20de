// Looks at a data directory, or at one file, without a daemon: for tools. Nothing of it is written to, not
// even the lock. While a daemon uses the directory, files may go or grow meanwhile.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/disk/fact.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/value/value.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sepal::storage {

// --- what a file holds ------------------------------------------------------------------------------------

// Tells what a filter file, a MANIFEST, a segment of the journal, CURRENT or SEED holds, whatever the file's
// name. Blocks. Errors: damaged and unsupported_version (file and offset; what stands before has been told),
// out_of_range for the LOCK of a data directory, those of Disk.
Result<void> inspect_file(Disk& disk, const Path& path, const FactSink& sink);

// --- whether it is whole ----------------------------------------------------------------------------------

struct Finding {
  enum class Grade : std::uint8_t {
    fine,
    harmless,  // a start says so in its log, and goes on
    damaged,   // a start stops
    newer,     // a start stops, because a newer version of Sepal wrote it
  };
  Grade grade = Grade::fine;
  std::string text;  // one line, with the file, and the offset where there is one

  [[nodiscard]] bool stops_start() const { return grade == Grade::damaged || grade == Grade::newer; }
};

// Verifies what a start would read: CURRENT, SEED, all files of the current generation, and the journal from
// its cut on. It does not apply the journal's operations, so it cannot tell whether they fit. Memory: a
// buffer and a few filters. Blocks. Errors: not_found also for a directory without a SEED, a CURRENT, a
// generation and a journal; those of Disk.
Result<std::vector<Finding>> verify_directory(Disk& disk, const Path& directory,
                                              const ProgressSink& progress);

// The same for a filter in a file of its own (filter_file.hpp), read to its last byte. Memory: the filter.
// Blocks. Errors: out_of_range (it holds no filter, or several), damaged (it does not begin as a file of
// Sepal's does: inspect_file says the same), out_of_memory, those of Disk.
Result<Finding> verify_filter_file(Disk& disk, const Path& path, const ProgressSink& progress);

// --- what can be saved of a damaged directory --------------------------------------------------------------

// How many values there are of each kind.
using KindCounts = std::map<value::Kind, std::uint64_t>;
[[nodiscard]] inline std::uint64_t count_of(const KindCounts& counts, value::Kind kind) {
  const auto found = counts.find(kind);
  return found == counts.end() ? 0 : found->second;
}
// All kinds, in their order: "3 filters and 0 strings".
[[nodiscard]] std::string text_of(const KindCounts& counts);

struct SalvageReport {
  KindCounts values;               // saved ones
  std::uint64_t items = 0;         // in the values
  std::uint64_t operations = 0;    // applied ones of the journal
  std::vector<std::string> lost;   // one line for each loss
  std::vector<std::string> noted;  // one line for each thing that was damaged and has cost no data
};

// Writes a new data directory `into` with all whole filters of the generation, and with what the journal did
// to them up to its damage: behind the damage it is unknown what a key names. A generation without a MANIFEST
// is salvaged without the journal. `into` is new or empty, and not inside `directory`. Memory: all filters.
// Blocks. Errors: out_of_range (`into`), not_found as verify_directory, those of Disk, too_large and
// out_of_memory; damaged where files of two data directories are mixed, or a restore was cut off.
Result<SalvageReport> salvage_directory(Disk& disk, const Path& directory, const Path& into,
                                        std::uint64_t seed_drawn, const ProgressSink& progress);

}  // namespace sepal::storage
