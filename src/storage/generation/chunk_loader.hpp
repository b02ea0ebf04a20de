// Loads the chunks of one big filter's bitmaps on several threads. Most of the time goes into the first touch
// of memory and into copying. One core does both more slowly than the memory allows.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "storage/generation/progress_meter.hpp"

namespace sepal::storage {

struct ChunkChecksums {
  format::U64 stored;
  std::uint64_t computed = 0;
};

// Used once.
class ChunkLoader {
 public:
  // Takes verified bytes, which begin at `offset` of the bitmaps. Several threads call it at once.
  using Fill = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;
  struct Place {
    std::uint64_t offset = 0;  // where the first chunk begins in the file
    std::uint64_t bitmap_bytes = 0;
  };

  ChunkLoader(File& file, const Place& place, Fill fill);

  // Returns the checksums of all chunks. The caller compares them: a chunk with a wrong checksum has not been
  // filled in. Blocks. Errors: damaged (the file ends too early), those of File, and of the meter.
  Result<std::vector<ChunkChecksums>> run(std::size_t thread_count, ProgressMeter& meter);

 private:
  struct Failure {
    std::size_t chunk = 0;
    Error error;
  };

  std::vector<std::thread> start_others(std::size_t count);
  // Loads chunks until none is left or a thread has failed. Calls `after_each` after each chunk.
  void load_chunks(const std::function<void()>& after_each);
  Result<void> load_chunk(std::size_t chunk, std::span<std::byte> buffer);
  void fail_at(std::size_t chunk, const Error& error);

  File& file_;
  const Place place_;
  const Fill fill_;
  std::vector<ChunkChecksums> checksums_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> bytes_done_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;                                              // Lock order: the innermost.
  std::optional<Failure> failure_ SEPAL_GUARDED_BY(mutex_);  // the error of the first chunk that failed
};

}  // namespace sepal::storage
