// Reads the records of one filter file, damaged or not.
//
// Filters are read one by one. After a filter that cannot be read, the next one begins where the head of the
// damaged one says that it ends. If that head is damaged as well, the next one is searched for: it begins at
// the next place that looks like a head and verifies as one. A value that a client has set may look like a
// record, too, and may be full of heads. So the work of a search is bounded, and the caller is told of what
// was found by one.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>
#include <functional>

#include "storage/format/sealed_reader.hpp"
#include "storage/generation/progress_meter.hpp"
#include "storage/generation/record_reader.hpp"

namespace sepal::storage {

// Confined. Blocks. Reads one file once.
class RecordSalvage {
 public:
  // In order: every record before it was reached in order too, and told where it ends.
  enum class Reached : std::uint8_t { in_order, by_search };
  using Take = std::function<Result<void>(LoadedValue& loaded, Reached reached)>;
  using Lose = std::function<void(const Error& error)>;

  RecordSalvage(File& file, std::uint64_t byte_count, LoadBuffer& buffer, const ProgressSink& progress)
      : byte_count_(byte_count), meter_(progress, byte_count), reader_(file, byte_count, buffer) {}

  // `listed` says what the MANIFEST says of this file; it is null if no MANIFEST does. `lose` is called once
  // for each filter whose head is right, and once for each region without such a head. Errors: those of File,
  // of `take`, and out_of_memory.
  Result<void> run(const format::ListedFile* listed, const Take& take, const Lose& lose);

 private:
  Result<void> read_records(const Take& take, const Lose& lose);
  Result<void> leave_damaged(std::uint64_t start, const Error& error, const Lose& lose);
  Result<void> search();
  Result<bool> go_to_magic();
  [[nodiscard]] bool wasted_too_much() const;

  std::uint64_t byte_count_;
  ProgressMeter meter_;
  SealedReader reader_;
  RecordReader records_{reader_, any_filter, meter_};
  Reached reached_ = Reached::in_order;
  bool searching_ = false;  // in a region that `lose` has been told of
  bool whole_ = true;
  std::uint64_t found_ = 0;   // records, damaged ones among them
  std::uint64_t wasted_ = 0;  // bytes that were read for heads that turned out to be none
};

}  // namespace sepal::storage
