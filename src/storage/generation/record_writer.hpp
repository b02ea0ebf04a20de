// Writes the header and the records of one filter file, one behind the other (snapshot_format.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/storage/generation/streamed_filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "storage/format/sealed_writer.hpp"
#include "storage/generation/progress_meter.hpp"

namespace sepal::storage {

struct RecordStart;

struct Record {
  std::uint32_t database = 0;
  std::string_view key;
  std::uint64_t journal_position = 0;
  keyspace::Deadline deadline = keyspace::no_deadline;
  value::FrozenView value;
};

// Appends a record whose body is at most one chunk to bytes in memory. `into` has all of its bytes
// (format::record_bytes). Appends its checksums to `checksums`. Returns how many bytes it took.
std::size_t pack_record(const Record& record, std::span<std::byte> into, std::vector<format::U64>& checksums);

// Confined. Blocks. Errors: those of SealedWriter; io if the meter's sink gave up; too_large for a key.
class RecordWriter {
 public:
  RecordWriter(SealedWriter& writer, ProgressMeter& meter) : writer_(writer), meter_(meter) {}

  Result<void> write_header(std::uint64_t record_count);
  Result<void> write_record(const Record& record);
  // Errors: those of the filter's bits as well.
  Result<void> write_streamed(const StreamedFilter& filter);

 private:
  Result<void> write_head(const RecordStart& head);
  Result<void> write_whole(const RecordStart& head, BitStream& bits);
  Result<void> write_bits(std::uint64_t bitmap_bytes, BitStream& bits);

  SealedWriter& writer_;
  ProgressMeter& meter_;
};

}  // namespace sepal::storage
