// The files of the journal's segments. A file is made before anything is written into its segment. When
// nothing is written into it any more, it is let go: it stays until a generation has all that it holds.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "storage/format/synced_file.hpp"
#include "storage/journal/journal_room.hpp"
#include "storage/journal/journal_segment.hpp"

namespace sepal::storage {

// Confined to the journal's thread, but for count() and byte_count(), which any thread may call.
class JournalFiles {
 public:
  JournalFiles(Disk& disk, Path directory) : disk_(disk), directory_(std::move(directory)) {}

  // Syncs the segments of the last process, which ends at `position`, and lets them go. Returns the newest
  // one that has begun; the number is 0 if there is none. Blocks. Errors: those of Disk.
  Result<SyncedMark> take_over(std::uint64_t position);
  // Makes a file with all its space, whose name is on disk. Blocks. Errors: io when no further number is
  // left; those of Disk.
  Result<std::unique_ptr<JournalSegment>> make(std::uint64_t segment_bytes);
  // Drops segments from memory.
  void let_go(JournalSegments segments);
  // Removes segments with nothing in them. Blocks.
  void remove(JournalSegments segments);
  // Removes the segments that were let go and end at or below `saved`, where the newest generation is cut.
  // True: that generation is another one than at the last call. Blocks.
  bool remove_past(std::uint64_t saved);
  // A segment that was let go ends behind this position.
  [[nodiscard]] bool has_past_behind(std::uint64_t position) const;

  // On disk, with the segments that are in memory.
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_.load(std::memory_order_relaxed); }

 private:
  struct Past {
    std::uint64_t number = 0;
    std::uint64_t end_position = 0;
    std::uint64_t byte_count = 0;  // the length of the file
  };

  bool remove_file(std::uint64_t number, std::uint64_t byte_count);

  Disk& disk_;
  const Path directory_;
  std::uint64_t next_number_ = 1;
  std::vector<Past> past_;
  bool more_past_ = false;  // past_ has grown since segments were last removed
  std::uint64_t removed_until_ = 0;
  // Gauges. Relaxed: nothing is ordered by them.
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> byte_count_{0};  // the sum over the files
};

}  // namespace sepal::storage
