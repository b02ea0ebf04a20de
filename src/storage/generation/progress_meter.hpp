#pragma once

#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>

namespace sepal::storage {

// Calls a ProgressSink about once for each chunk, however small the pieces are. Confined.
class ProgressMeter {
 public:
  // `sink` may be empty; it outlives this object.
  ProgressMeter(const ProgressSink& sink, std::uint64_t bytes_total)
      : sink_(sink), progress_{.bytes_done = 0, .bytes_total = bytes_total} {}

  // Errors: io if the sink gave up.
  Result<void> add(std::uint64_t bytes) {
    progress_.bytes_done += bytes;
    if (progress_.bytes_done < next_) return {};
    next_ = progress_.bytes_done + format::chunk_bytes;
    if (!sink_ || sink_(progress_)) return {};
    return fail(Errc::io, "given up before the end, as asked");
  }

 private:
  const ProgressSink& sink_;
  Progress progress_;
  std::uint64_t next_ = 0;
};

}  // namespace sepal::storage
