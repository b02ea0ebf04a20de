// Reads the records of one filter file, one filter after the other. Errors: those of SealedReader, and those
// about the limits of a filter. Their sentences lack the file's name.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/value/kind_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "storage/format/sealed_reader.hpp"
#include "storage/generation/progress_meter.hpp"

namespace sepal::storage {

// The limits of callers that only look. A filter can still not be larger than its file, even if the file lies
// about the size.
inline constexpr value::Limits any_filter{.bytes_max = std::uint64_t{1} << 62,
                                          .layers_max = std::numeric_limits<std::uint16_t>::max()};

// What happens to the body of a value. Checked: it is read and verified, and the value stays empty. So a
// large filter takes no memory. A kind that checks its bodies itself (KindRow::complete) gets them in any
// case.
enum class Bits : std::uint8_t { loaded, checked };

// Confined. Blocks.
class RecordReader {
 public:
  // A big body is read by a few threads, and by `thread_count_max` at most.
  RecordReader(SealedReader& reader, const value::Limits& limits, ProgressMeter& meter,
               Bits bits = Bits::loaded, std::size_t thread_count_max = body_threads_max)
      : reader_(reader),
        limits_(limits),
        meter_(meter),
        bits_(bits),
        thread_count_max_(std::min(thread_count_max, body_threads_max)) {}

  // The number of records that follow.
  Result<std::uint64_t> read_header();
  // Errors name the filter if its head is right.
  Result<LoadedValue> read_record();
  // Whether the reader stands where a head may begin: magic, numbers and lengths are as those of a head.
  // Takes and hashes nothing. Errors: those of SealedReader.
  Result<bool> sees_head();
  // Longer heads count as damaged from now on.
  void limit_heads(std::uint64_t byte_count) { head_bytes_max_ = byte_count; }
  // After a failed read_record(): where the record ends, if that is known.
  [[nodiscard]] std::optional<std::uint64_t> end_of_record() const { return end_of_record_; }

 private:
  static constexpr std::size_t body_threads_max = 4;
  // The head of no image is longer.
  static constexpr std::uint64_t image_bytes_max = std::uint64_t{4} << 20;
  static constexpr std::uint64_t head_bytes_max =
      sizeof(format::RecordHead) + keyspace::key_bytes_max + image_bytes_max + format::checksum_bytes;

  struct Head {
    std::uint32_t database = 0;
    std::string key;
    std::uint64_t bitmap_bytes = 0;
    std::uint64_t journal_position = 0;
    keyspace::Deadline deadline = keyspace::no_deadline;
    const value::KindRow* row = nullptr;
    std::uint64_t item_count = 0;
    std::span<const std::byte> image;  // valid until more is read
    std::string long_head;             // has the image, if the reader's buffer cannot hold it
  };
  Result<Head> read_head();
  [[nodiscard]] bool fills(const value::KindRow& row) const {
    return bits_ == Bits::loaded || row.complete != nullptr;
  }
  Result<value::ValuePtr> read_value(std::uint64_t start, const Head& head);
  Result<format::RecordHead> peek_fixed_head();
  Result<std::span<const std::byte>> take_head(std::uint64_t count, std::string& long_head);
  Result<void> check_lengths(std::uint64_t start, const format::RecordHead& head) const;
  // Takes the row and the count of items.
  Result<void> read_image_head(std::uint64_t start, std::span<const std::byte> bytes, Head& into) const;
  Result<value::ValuePtr> make_value(std::uint64_t start, const Head& head) const;
  Result<void> read_bits(value::Value& value, const Head& head);
  Result<void> read_bits_together(value::Value& value, const Head& head);

  SealedReader& reader_;
  const value::Limits& limits_;
  ProgressMeter& meter_;
  Bits bits_;
  std::size_t thread_count_max_;
  std::uint64_t head_bytes_max_ = head_bytes_max;
  std::optional<std::uint64_t> end_of_record_;
};

}  // namespace sepal::storage
