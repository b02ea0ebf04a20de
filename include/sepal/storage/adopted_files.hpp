// Filters that came whole and are too large for a record of the journal: each is in a file of its own in the
// data directory, adopted-000000000007, as filter_file.hpp has them, until a generation holds it.
//
//     write()  file synced, renamed, directory synced     nobody names it: a start removes it
//     record   the journal names number and seal          replay reads it
//     save     a generation holds what the record did     removed
//
// In this order, so that no record can be found without its file, wherever a crash falls.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace sepal::storage {

// A file that a record names.
struct NamedFile {
  std::uint64_t number = 0;
  std::uint64_t position = 0;    // of the journal, behind the record
  std::uint64_t byte_count = 0;  // about
};

// Synchronised.
class AdoptedFiles {
 public:
  // After a replay, which has told the files that its records name. The others are remains, and removed.
  // Blocks. Errors: those of Disk.
  static Result<std::unique_ptr<AdoptedFiles>> open(Disk& disk, Path directory, std::vector<NamedFile> named);

  // Of a filter that nobody adds to; it survives a power cut when this returns. Blocks. One thread at a time.
  // Errors: those of Disk; io when `progress` gave up. After an error nothing is left, as far as that can be
  // had.
  Result<keyspace::ImageFile> write(const keyspace::FilterPtr& filter, const ProgressSink& progress);
  // A record names it now. With the gate closed, so that no generation can be cut between.
  void named(const NamedFile& file);
  [[nodiscard]] bool is_named(std::uint64_t number);
  // Of those that are named.
  [[nodiscard]] std::uint64_t byte_count();
  // None will. Blocks. A file that cannot be removed is logged, and removed by the next start.
  void drop(std::uint64_t number);

  // A generation cut at this position is current and durable: it has the filters of the records before it.
  // Blocks, as drop().
  void generation_saved(std::uint64_t position);

 private:
  AdoptedFiles(Disk& disk, Path directory, std::vector<NamedFile> named);
  Result<void> remove_remains();

  Disk& disk_;
  const Path directory_;
  std::uint64_t next_number_ = 1;  // The writing thread's.
  Mutex mutex_;                    // Lock order: after the gate; nothing is locked inside.
  std::vector<NamedFile> named_ SEPAL_GUARDED_BY(mutex_);
};

// What a record names. Blocks. Errors: damaged also where the file is not there or another one, with its
// name; those of read_filter_file.
Result<keyspace::FilterPtr> read_adopted(Disk& disk, const Path& directory, const keyspace::ImageFile& file,
                                         const filter::FilterLimits& limits, const ProgressSink& progress);

}  // namespace sepal::storage
