// The data directory: which daemon uses it, which generation is current, and the seed of this server.
//
//     data/
//       LOCK                    flock'ed while a daemon uses the directory; holds its process id, and its
//                               notes: lines that say where it listens
//       SEED                    the seed of new filters, drawn once (formats.md)
//       CURRENT                 the name of the current generation; replaced by rename
//       FIRST                   while there is no CURRENT: the generation that the first save makes
//       generation-000000000007/
//         MANIFEST              every file of the generation with length and checksum; written last
//         pack-0                small filters, one behind the other
//         filter-7-0 ...        one file for each big filter, named after the generation that wrote it; a
//                               link to that of the generation before when nothing changed in it
//
// A save writes a generation aside, syncs every file, then its MANIFEST, then its directory, and then
// replaces CURRENT. A crash at any instant leaves the old generation current, or the new one. A folder that
// CURRENT does not name is what a crash or an old generation left: it is removed after a save and at start,
// and never read. But when a generation was saved and there is no CURRENT, then CURRENT was lost: that
// generation is kept, and open() refuses.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/lineage.hpp>
#include <sepal/storage/generation/snapshot.hpp>
#include <sepal/storage/generation/streamed_filter.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::storage {

struct Progress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};
// Called now and then from within a save or a load; must be quick. Returns false to give up (the second stop
// signal).
using ProgressSink = std::function<bool(const Progress&)>;

struct GenerationReport {
  std::string name;  // empty: there was none to load
  std::uint64_t value_count = 0;
  std::uint64_t bytes = 0;             // in all files
  std::uint64_t linked_bytes = 0;      // in files that a save did not write, because nothing changed in them
  std::uint64_t journal_position = 0;  // at the cut
  std::uint32_t run = 0;               // from a load: the run that saved it (lineage.hpp)
  std::vector<keyspace::Mirror> mirrors{};  // from a load: begin them when all filters are under their keys
};

struct DataDirectoryOptions {
  // A filter whose bitmaps take this much gets a file of its own, until the manifest has as many files as it
  // may list. The other filters share the pack, which costs no sync for each of them.
  std::uint64_t own_file_bytes_min = std::uint64_t{4} << 20;
  // So many threads pack the values of a save, or read and check those of a load: the caller's, and others
  // that end with it. At least 1. The caller's thread alone calls the disk, but for the body of a big filter,
  // of which each thread reads a part.
  std::size_t thread_count = 4;
};

// What a save does with a file that would be the same as a file of this process's last generation.
enum class Linking : std::uint8_t { unchanged, none };

struct LoadedValue {
  std::uint32_t database = 0;
  std::string key;
  value::ValuePtr value;
  std::uint64_t cut_position = 0;  // at the cut of its generation
  // Where it was frozen. The position may be before the cut. Then the value did not change between it and the
  // cut.
  std::uint64_t journal_position = 0;
  std::uint64_t offset = 0;  // where its record begins in its file
  // At the freeze, as its head says. The value itself may have changes from behind it (value::KindRow).
  std::uint64_t item_count = 0;
  keyspace::Deadline deadline = keyspace::no_deadline;
};

// A load hands over filters as soon as it has a few. So a sink that closes a gate to take them does so
// seldom, and a load holds the bits of few filters beside what it reads. The sink takes them in order and
// leaves null behind. After an error the first that is not null is the one that the sink refused.
using LoadSink = std::function<Result<void>(std::span<LoadedValue> filters)>;

// The notes in LOCK: those of the daemon that uses the directory, or of the last one. None where there is no
// LOCK, or where it is too long to be one. Blocks. Errors: those of Disk.
Result<std::vector<std::string>> read_notes(Disk& disk, const Path& directory);

enum class DirectoryUse : std::uint8_t {
  none,    // there is no LOCK, and no process has locked the directory
  former,  // there is a LOCK that no process holds
  now,     // a process holds it: a daemon, or a tool that writes into the directory
};
// Makes no file, and no start fails because of it. Blocks. Errors: those of Disk, for example where LOCK may
// not be read.
Result<DirectoryUse> use_of(Disk& disk, const Path& directory);

// Confined to one thread at a time. Blocks.
class DataDirectory {
 public:
  // Creates the directory (and its parents) when missing, takes the lock, removes remains, reads or draws the
  // seed and the identity, and draws the run. They are drawn from `drawn`, a random number that is new at
  // each call. `seed_fixed` is used instead of the directory's seed, which stays as it is. Errors: in_use
  // (another sepald), read_only, disk_full, io, unsupported_version; damaged, also where files of two data
  // directories are mixed, or a restore was cut off.
  static Result<std::unique_ptr<DataDirectory>> open(Disk& disk, Path directory, std::uint64_t drawn,
                                                     std::optional<std::uint64_t> seed_fixed,
                                                     const DataDirectoryOptions& options = {});
  ~DataDirectory();

  [[nodiscard]] const Path& path() const;
  [[nodiscard]] std::uint64_t seed() const;
  // Identity and run, for what this process writes into the directory.
  [[nodiscard]] Lineage lineage() const;

  // The bytes of the generation that was loaded or saved last; 0: there was none.
  [[nodiscard]] std::uint64_t saved_bytes() const;

  // The free room of its disk; 0 if the file system does not tell. Synchronised.
  [[nodiscard]] std::uint64_t free_bytes() const;

  // Whether the path still leads to the directory that is locked. Errors: io (another one), not_found.
  // Synchronised.
  [[nodiscard]] Result<void> check();
  // If an empty directory is in the place of the locked one, locks that one; the next save() writes
  // everything into it. Returns whether it did. Not while a save runs. Errors: io (the other one is not
  // empty), in_use.
  Result<bool> take_replacement();

  // Writes lines for read_notes(), in the place of earlier ones. Errors: io, disk_full, read_only.
  Result<void> note(std::string_view lines);

  // Writes `snapshot` as a new generation and makes it current, then removes the older ones. Filters may be
  // added to while this reads them: the generation holds what was added before the cut, and a part of what
  // came after. Memory: one fixed buffer, and two of run_bytes_max for each thread. On an error the old
  // generation is current and untouched, and what was written is removed as far as the disk allows.
  // `all_read` may be empty; it is called when all bits are read, before the MANIFEST is made, and its error
  // ends the save. One case differs: when the very last sync fails (of the directory, with CURRENT replaced
  // already), both generations stay, because it is unknown which one a power loss would leave. Errors:
  // disk_full, read_only, io (also when `progress` gave up), not_found (the directory was removed meanwhile).
  Result<GenerationReport> save(const Snapshot& snapshot, const ProgressSink& progress,
                                Linking linking = Linking::unchanged,
                                const std::function<Result<void>()>& all_read = {});

  // Writes filters that are in no memory as the first generation, as save() does. Goes through the stream
  // twice: an error of the first time leaves nothing behind. Memory: fixed buffers. Errors: those of save()
  // and of the stream; in_use where the directory has a generation already.
  Result<GenerationReport> import_filters(FilterStream& filters, WallTime now, const ProgressSink& progress);

  // Verifies every checksum of the current generation and hands its filters to `sink`; there may be no
  // generation. Memory: one fixed buffer, two smaller ones for each thread, and the filters of these, each
  // within `limits` and no larger than its file.
  // Errors: damaged and unsupported_version (file, offset, what to do), too_large (a filter exceeds
  // `limits`), out_of_memory, io (also when `progress` gave up), and those that `sink` returns. After an
  // error some filters may have been handed over.
  Result<GenerationReport> load(const value::Limits& limits, const LoadSink& sink,
                                const ProgressSink& progress);

 private:
  class Implementation;
  explicit DataDirectory(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sepal::storage
