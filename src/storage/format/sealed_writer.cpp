#include "storage/format/sealed_writer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sepal::storage {
namespace {

// How much is written between two calls of write_back(). Without them a save of gigabytes would leave all of
// its bytes to the last sync, and the journal's syncs would wait behind it.
constexpr std::uint64_t write_back_bytes = std::uint64_t{8} << 20;

constexpr std::size_t joined_bytes_max = std::size_t{64} << 10;

}  // namespace

Result<void> SealedWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), SaveBuffer::capacity);
    auto place = append_place(count);
    if (!place) return place.error();
    std::memcpy(place->data(), bytes.data(), count);
    bytes = bytes.subspan(count);
  }
  return {};
}

// The caller encodes, or copies bits, straight into the buffer: a save of many small filters would otherwise
// copy each record twice.
Result<std::span<std::byte>> SealedWriter::append_place(std::size_t count) {
  SEPAL_ASSERT(!finished_, "bytes are appended to a file that is sealed");
  SEPAL_ASSERT(count <= SaveBuffer::capacity, "a place larger than the buffer");
  if (count > SaveBuffer::capacity - used_) {
    if (auto flushed = flush(); !flushed) return flushed.error();
  }
  const auto place = buffer_.bytes().subspan(used_, count);
  used_ += count;
  return place;
}

Result<void> SealedWriter::append_checksum(std::uint64_t checksum) {
  const format::U64 stored(checksum);
  seal_.update(format::bytes_of(stored));
  return append(format::bytes_of(stored));
}

Result<void> SealedWriter::append_sealed(std::span<const std::byte> bytes,
                                         std::span<const format::U64> checksums) {
  seal_.update(std::as_bytes(checksums));
  // A few bytes are not worth a call of the system.
  if (bytes.size() <= joined_bytes_max) return append(bytes);
  if (auto flushed = flush(); !flushed) return flushed;
  return write(bytes);
}

Result<SealedWriter::Sealed> SealedWriter::finish() {
  SEPAL_ASSERT(!finished_, "a file is sealed once");
  finished_ = true;
  if (auto flushed = flush(); !flushed) return flushed.error();
  if (auto synced = file_->sync(); !synced) return synced.error();
  return Sealed{.byte_count = written_, .seal = seal_.value()};
}

Result<void> SealedWriter::flush() {
  if (used_ == 0) return {};
  if (auto done = write(buffer_.bytes().first(used_)); !done) return done;
  used_ = 0;
  return {};
}

Result<void> SealedWriter::write(std::span<const std::byte> bytes) {
  if (auto done = file_->write_at(written_, bytes); !done) return done;
  written_ += bytes.size();
  // What is left at the end is less than write_back_bytes, and finish() syncs it.
  const std::uint64_t waiting = written_ - written_back_;
  if (waiting < write_back_bytes) return {};
  return file_->write_back(std::exchange(written_back_, written_), waiting);
}

}  // namespace sepal::storage
