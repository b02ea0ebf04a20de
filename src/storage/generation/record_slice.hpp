// Some records of a file, one behind the other, which one thread reads and another checks and makes values
// of.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "storage/generation/record_reader.hpp"

namespace sepal::storage {

// Confined, to one thread at a time. Its memory is used again for each read().
class RecordSlice {
 public:
  // The bytes of a slice, and the longest record that it takes. A longer one is not worth another thread.
  static constexpr std::size_t capacity = std::size_t{256} << 10;
  static constexpr std::uint64_t record_bytes_max = capacity / 2;

  // Whether a record of which these are the first bytes goes into a slice, as far as it says. Believes
  // nothing: the record may not be there.
  [[nodiscard]] static bool takes(const format::RecordHead& head);

  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t file_bytes = 0;
    std::uint64_t record_count_max = 0;  // at least 1
  };
  // Reads records, up to the first one that the slice does not take or hold; there may be none. Blocks.
  // Errors: those of File.
  Result<void> read(File& file, const Place& place);
  // Checks the records and makes their values. Errors: those of RecordReader, for the first record that has
  // any.
  Result<void> decode(const value::Limits& limits, Bits bits);

  // After read().
  [[nodiscard]] std::uint64_t record_count() const { return record_count_; }
  [[nodiscard]] std::uint64_t begin() const { return place_.offset; }
  [[nodiscard]] std::uint64_t end() const { return place_.offset + byte_count_; }
  // After decode().
  [[nodiscard]] std::span<LoadedValue> values() { return values_; }
  [[nodiscard]] std::uint64_t item_count() const { return item_count_; }
  [[nodiscard]] std::span<const format::U64> checksums() const { return checksums_; }

 private:
  [[nodiscard]] std::optional<std::size_t> end_of_record(std::size_t at, std::size_t filled) const;

  std::unique_ptr<std::byte[]> bytes_;  // null before the first read()
  Place place_;
  std::size_t byte_count_ = 0;
  std::uint64_t record_count_ = 0;
  std::vector<LoadedValue> values_;
  std::uint64_t item_count_ = 0;
  std::vector<format::U64> checksums_;
};

}  // namespace sepal::storage
