// Reads a filter file from front to back through one buffer, verifies its checksums and works out its seal
// (snapshot_format.hpp). Its errors about damage begin behind the file's name (damage.hpp).
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>
#include <sepal/storage/snapshot_format.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace sepal::storage {

// The buffer that a load uses for all its files. Larger than a chunk, so that small records come many to a
// read.
class LoadBuffer {
 public:
  static constexpr std::size_t capacity = 2 * format::chunk_bytes;
  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), capacity}; }

 private:
  // Not zeroed: a small generation touches a small part.
  std::unique_ptr<std::byte[]> bytes_ = std::make_unique_for_overwrite<std::byte[]>(capacity);
};

// Confined. Blocks. Errors of all members: damaged, and those of File.
class SealedReader {
 public:
  // `byte_count` is what the file has, which has been asked.
  SealedReader(File& file, std::uint64_t byte_count, LoadBuffer& buffer)
      : file_(file), byte_count_(byte_count), buffer_(buffer) {}

  [[nodiscard]] File& file() { return file_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t remaining() const { return byte_count_ - offset_; }

  // The next `count` bytes, at most LoadBuffer::capacity; valid until the next call.
  Result<std::span<const std::byte>> take(std::size_t count);
  // The same, and they come again.
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

  // Goes on behind `count` bytes that somebody else has read, at most remaining().
  void skip(std::uint64_t count);

  // Text of any length up to remaining(), which the caller has compared: it is allocated.
  Result<std::string> take_text(std::size_t count);

  // The next `count` bytes and the checksum behind them, which is verified; fits as take() does, together.
  Result<std::span<const std::byte>> take_sealed(std::size_t count, std::string_view what);

  // The next bytes are a checksum, and it is this one. `start` and `what` say what it covers.
  Result<void> take_checksum(std::uint64_t expected, std::uint64_t start, std::string_view what);

  // The same for a checksum that has been taken.
  Result<void> accept(format::U64 stored, std::uint64_t expected, std::uint64_t start, std::string_view what);

  [[nodiscard]] std::uint64_t seal() const { return seal_.value(); }

 private:
  Result<void> refill();

  File& file_;
  std::uint64_t byte_count_;
  LoadBuffer& buffer_;
  std::size_t begin_ = 0;  // of what the buffer holds and nobody took
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;  // of begin_ in the file
  Checksum seal_;
};

}  // namespace sepal::storage
