// Writes a filter file from front to back through one buffer, and computes its seal (snapshot_format.hpp).
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/snapshot_format.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sepal::storage {

// The buffer that a save uses for all its files. A chunk and its checksum fit into it.
class SaveBuffer {
 public:
  static constexpr std::size_t capacity = format::chunk_bytes + format::checksum_bytes;
  [[nodiscard]] std::span<std::byte> bytes() { return {bytes_.get(), capacity}; }

 private:
  // Not zeroed: a small generation touches a small part.
  std::unique_ptr<std::byte[]> bytes_ = std::make_unique_for_overwrite<std::byte[]>(capacity);
};

// Confined. Blocks. Errors of all members: those of File.
class SealedWriter {
 public:
  SealedWriter(std::unique_ptr<File> file, SaveBuffer& buffer) : file_(std::move(file)), buffer_(buffer) {
    SEPAL_ASSERT(file_ != nullptr, "there is no file to write to");
  }

  Result<void> append(std::span<const std::byte> bytes);
  // A place for `count` bytes, at most SaveBuffer::capacity, to be filled before the next call.
  Result<std::span<std::byte>> append_place(std::size_t count);
  // How many bytes were appended.
  [[nodiscard]] std::uint64_t offset() const { return written_ + used_; }
  // Appends a checksum, which becomes part of the seal.
  Result<void> append_checksum(std::uint64_t checksum);

  // Appends bytes that have checksums in them. The checksums become part of the seal, in their order.
  Result<void> append_sealed(std::span<const std::byte> bytes, std::span<const format::U64> checksums);

  struct Sealed {
    std::uint64_t byte_count = 0;
    std::uint64_t seal = 0;
  };
  // Writes what is left and syncs the file.
  Result<Sealed> finish();

 private:
  Result<void> flush();
  Result<void> write(std::span<const std::byte> bytes);

  std::unique_ptr<File> file_;
  SaveBuffer& buffer_;
  std::size_t used_ = 0;       // bytes in the buffer
  std::uint64_t written_ = 0;  // bytes of the file
  std::uint64_t written_back_ = 0;
  bool finished_ = false;
  Checksum seal_;
};

}  // namespace sepal::storage
