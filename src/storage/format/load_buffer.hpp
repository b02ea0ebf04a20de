// The memory that a load reads its files into, one file after the other.
#pragma once

#include <sepal/storage/format/snapshot_format.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sepal::storage {

// Confined. Grows to the size that the largest file so far needs, so that small files cost little.
template <std::size_t capacity_bytes>
class GrowingBuffer {
 public:
  static constexpr std::size_t capacity = capacity_bytes;

  // At least as many bytes as the file has, up to `capacity`. Not zeroed. Valid until the next call.
  std::span<std::byte> for_file(std::uint64_t file_bytes) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(file_bytes, capacity));
    if (byte_count_ < wanted) {
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(wanted);
      byte_count_ = wanted;
    }
    return {bytes_.get(), byte_count_};
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t byte_count_ = 0;
};

// The buffer for filter files. It is larger than a chunk, so that one read brings many small records.
using LoadBuffer = GrowingBuffer<2 * format::chunk_bytes>;

}  // namespace sepal::storage
