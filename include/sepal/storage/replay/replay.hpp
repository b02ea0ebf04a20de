// Brings a keyspace that was loaded from a generation to the end of its journal.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/journal/highest_positions.hpp>

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace sepal::storage {

// The values of a generation that were taken at a position of their own, behind the cut. Confined.
class ValuePositions {
 public:
  // Notes a loaded value that was put under its key.
  void note(const LoadedValue& loaded, const value::Value& value);
  // Whether the value has what happened at `position` already.
  [[nodiscard]] bool has(const value::Value& value, std::uint64_t position) const;
  // The value is gone, and another may get its address.
  void forget(const value::Value* value);
  void move(const value::Value& value, std::uint32_t to_database);
  void swap_databases(std::uint32_t database, std::uint32_t other);
  void forget_database(std::uint32_t database);
  void clear() { positions_.clear(); }

  [[nodiscard]] const HighestPositions& highest() const { return highest_; }

 private:
  struct Noted {
    std::uint64_t position = 0;
    std::uint32_t database = 0;
  };
  std::unordered_map<const value::Value*, Noted> positions_;
  HighestPositions highest_;
};

struct ReplayStart {
  std::uint64_t cut = 0;                    // the generation's cut; 0 when there is none
  ValuePositions positions;                 // those of its values
  std::vector<keyspace::Mirror> mirrors{};  // from the generation; their filters are under their keys
  std::uint32_t run = 0;                    // that saved the generation; 0 when there is none
};

struct ReplayReport {
  std::uint64_t position = 0;  // where the journal goes on
  std::uint32_t run = 0;       // that wrote what is before it (Lineage::run_before)
  std::uint64_t segments = 0;  // that were there
  std::uint64_t frames = 0;
  std::uint64_t operations = 0;
  std::uint64_t items = 0;           // items that were added
  std::uint64_t items_left_out = 0;  // because the generation has them
  std::uint64_t bytes = 0;           // bytes of frames

  // The bytes behind the end: what was written last and did not get to the disk, or what follows a time in
  // which the journal was off.
  std::uint64_t cut_bytes = 0;
  Path cut_path;                 // the file they are in; empty when there are none
  std::uint64_t cut_offset = 0;  // where in that file
  bool resumed = false;          // they follow a time in which the journal was off
  std::vector<Path> beyond;      // segments behind the end

  std::vector<NamedFile> named;  // files of filters that came whole

  // The generation has values that changed while it was saved and whose changes are applied again
  // (value::Repeat), and the journal of that time is not there: each of them may have a part of a change.
  bool values_may_be_torn = false;
};

// Reads the journal in `directory` from the cut on and applies it. Closes the gate for a fraction of a
// millisecond at a time. The journal may be missing. Writes nothing. Blocks. Errors: damaged and
// unsupported_version (file, offset, what to do), too_large and out_of_memory (a filter does not fit into the
// machine), those of Disk, io also when `progress` gave up. After an error a part of the journal is applied.
Result<ReplayReport> replay_journal(Disk& disk, const Path& directory, keyspace::Keyspace& keyspace,
                                    Gate& gate, ReplayStart start, const ProgressSink& progress);

// Removes the segments behind the end of a replay, before a new one begins there. Blocks. Errors: those of
// Disk.
Result<void> remove_beyond(Disk& disk, const Path& directory, const ReplayReport& report);

}  // namespace sepal::storage
