// Reads the records of one filter file, damaged or not.
//
// Filters are read one by one. After a filter that cannot be read, the next one begins where the head of the
// damaged one says that it ends, or at the next place that looks like a head and verifies as one.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/data_directory.hpp>
#include <sepal/storage/disk.hpp>

#include <cstdint>
#include <functional>
#include <optional>

#include "progress_meter.hpp"
#include "record_reader.hpp"
#include "sealed_reader.hpp"

namespace sepal::storage {

// Confined. Blocks.
class RecordSalvage {
 public:
  using Take = std::function<Result<void>(LoadedFilter& loaded)>;
  using Lose = std::function<void(const Error& error)>;

  RecordSalvage(File& file, std::uint64_t byte_count, LoadBuffer& buffer, const ProgressSink& progress)
      : file_(file), byte_count_(byte_count), buffer_(buffer), meter_(progress, byte_count) {}

  // `listed` says what the MANIFEST says of this file; it is null if no MANIFEST does. Errors: those of File,
  // of `take`, and out_of_memory.
  Result<void> run(const format::ListedFile* listed, const Take& take, const Lose& lose);

 private:
  void begin_at(std::uint64_t offset);
  void go_on_at(std::uint64_t offset);
  Result<std::uint64_t> next_head(std::uint64_t from);

  File& file_;
  std::uint64_t byte_count_;
  LoadBuffer& buffer_;
  ProgressMeter meter_;
  std::optional<SealedReader> reader_;
  std::optional<RecordReader> records_;
};

}  // namespace sepal::storage
