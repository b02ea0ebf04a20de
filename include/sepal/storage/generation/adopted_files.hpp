// Filters that came whole and are too large for a record of the journal. Each is in a file of its own in the
// data directory, adopted-000000000007, in the form of filter_file.hpp, until a generation holds it.
//
//     write()  file synced, renamed, directory synced     no record names it: a start removes it
//     record   the journal names number and seal          replay reads it
//     save     a generation holds what the record did     removed
//
// The order matters: a crash at any instant leaves no record without its file.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace sepal::storage {

// A file that a record names.
struct NamedFile {
  std::uint64_t number = 0;
  std::uint64_t position = 0;    // behind the record, in the journal
  std::uint64_t byte_count = 0;  // about
};

// Synchronised.
class AdoptedFiles {
 public:
  // Call it after a replay, which gives the files that its records name. Other adopted files are remains, and
  // are removed. Blocks. Errors: those of Disk.
  static Result<std::unique_ptr<AdoptedFiles>> open(Disk& disk, Path directory, std::vector<NamedFile> named);

  // Writes a filter that no other thread adds to; it survives a power cut when this returns. Blocks. One
  // thread at a time. Errors: those of Disk, whose sentences name the directory and no file aside; io when
  // `progress` gave up. After an error no file is left, as far as the disk allows that.
  Result<keyspace::ImageFile> write(const value::ValuePtr& value, const ProgressSink& progress);
  // A record names the file now. Called with the gate closed, so that no generation is cut in between.
  void named(const NamedFile& file);
  [[nodiscard]] bool is_named(std::uint64_t number);
  // The bytes of all named files.
  [[nodiscard]] std::uint64_t byte_count();
  // No record will name the file. Blocks. A file that cannot be removed is logged, and the next start removes
  // it.
  void drop(std::uint64_t number);

  // A generation cut at this position is current and durable: it has the filters of the records before it.
  // Blocks, as drop().
  void generation_saved(std::uint64_t position);

 private:
  AdoptedFiles(Disk& disk, Path directory, std::vector<NamedFile> named);
  Result<void> remove_remains();
  std::uint64_t next_number();

  Disk& disk_;
  const Path directory_;
  std::uint64_t number_ = 0;  // of the last file. Belongs to the thread that writes.
  Mutex mutex_;               // Lock order: after the gate; nothing is locked inside.
  std::vector<NamedFile> named_ SEPAL_GUARDED_BY(mutex_);
};

// Whether an interrupted write_filter_file() leaves files of this name, in this version or in an earlier one.
// A start removes them from the data directory.
[[nodiscard]] bool is_unfinished_filter_file(std::string_view name);

// Reads the file that a record names. Blocks. Errors: damaged, with the file's name, also where the file is
// missing or is another file; those of read_filter_file.
Result<value::ValuePtr> read_adopted(Disk& disk, const Path& directory, const keyspace::ImageFile& file,
                                     const value::Limits& limits, const ProgressSink& progress);

}  // namespace sepal::storage
