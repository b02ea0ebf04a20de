// Reads a filter file from front to back through one buffer, verifies its checksums and computes its seal
// (snapshot_format.hpp). Its errors about damage lack the file's name (damage.hpp).
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "storage/format/load_buffer.hpp"

namespace sepal::storage {

// Confined. Blocks. Errors of all members: damaged, and those of File.
class SealedReader {
 public:
  // `byte_count` is the size of the file. No other reader uses the buffer meanwhile.
  SealedReader(File& file, std::uint64_t byte_count, LoadBuffer& buffer)
      : file_(&file), byte_count_(byte_count), buffer_(buffer.for_file(byte_count)) {}
  // Bytes of a file of `byte_count` bytes that are in memory already and begin at `offset`. Whatever is taken
  // lies within them. The checksums go to `accepted` and not into a seal.
  SealedReader(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t byte_count,
               std::vector<format::U64>& accepted)
      : byte_count_(byte_count), buffer_(bytes), end_(bytes.size()), offset_(offset), accepted_(&accepted) {}

  // Not of bytes in memory.
  [[nodiscard]] File& file() { return *file_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t remaining() const { return byte_count_ - offset_; }

  // The next `count` bytes, at most LoadBuffer::capacity; valid until the next call.
  Result<std::span<const std::byte>> take(std::size_t count);
  // The same bytes as take(), which stay to be taken.
  Result<std::span<const std::byte>> peek(std::size_t count);

  template <class Structure>
  Result<Structure> take_structure() {
    static_assert(std::is_trivially_copyable_v<Structure>);
    const auto bytes = take(sizeof(Structure));
    if (!bytes) return bytes.error();
    Structure structure;
    std::memcpy(&structure, bytes->data(), sizeof structure);
    return structure;
  }

  // Skips `count` bytes that another object has read, at most remaining().
  void skip(std::uint64_t count);

  // Goes on at another place in the file, at most its end. What the buffer still has is not read again. From
  // then on seal() means nothing.
  void go_to(std::uint64_t offset);

  // Text of any length up to remaining(). It is allocated, so the caller has checked the length.
  Result<std::string> take_text(std::size_t count);

  // The next `count` bytes, verified by the checksum behind them. Bytes and checksum together fit into what
  // take() allows.
  Result<std::span<const std::byte>> take_sealed(std::size_t count, std::string_view what);

  // Takes the next checksum and compares it with `expected`. `start` and `what` say what it covers.
  Result<void> take_checksum(std::uint64_t expected, std::uint64_t start, std::string_view what);

  // The same for a checksum that has been taken already.
  Result<void> accept(format::U64 stored, std::uint64_t expected, std::uint64_t start, std::string_view what);

  // Adds checksums that another reader has accepted, and goes on behind what it has read.
  void accept_read(std::span<const format::U64> checksums, std::uint64_t offset);

  [[nodiscard]] std::uint64_t seal() const { return seal_.value(); }

 private:
  Result<void> refill();

  File* file_ = nullptr;
  std::uint64_t byte_count_;
  std::span<std::byte> buffer_;
  std::size_t begin_ = 0;  // where the bytes begin that were not taken yet
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;  // where begin_ stands in the file
  std::vector<format::U64>* accepted_ = nullptr;
  Checksum seal_;
};

}  // namespace sepal::storage
