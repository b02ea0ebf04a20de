//     buffer_   |  taken  |  not taken yet  |  free  |
//               0         begin_            end_     size
//
// The byte at begin_ stands at offset_ in the file, and the buffer's first byte at offset_ - begin_. This
// holds between all calls. The buffer has at least the size of the file, or LoadBuffer::capacity if the file
// is longer. So whatever take() may be asked for fits into it.
#include "storage/format/sealed_reader.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>

#include "storage/disk/damage.hpp"

namespace sepal::storage {

Result<std::span<const std::byte>> SealedReader::take(std::size_t count) {
  auto bytes = peek(count);
  if (!bytes) return bytes;
  begin_ += count;
  offset_ += count;
  SEPAL_ASSERT(begin_ <= end_ && offset_ <= byte_count_, "more bytes are taken than the buffer holds");
  return bytes;
}

Result<std::span<const std::byte>> SealedReader::peek(std::size_t count) {
  SEPAL_ASSERT(count <= LoadBuffer::capacity, "more than the buffer holds");
  if (count > remaining()) return damaged_at(offset_, "it ends too early");
  if (count > end_ - begin_) {
    // One refill suffices, because it fills the whole buffer, or reads to the end of the file. `count` is
    // within both.
    if (auto done = refill(); !done) return done.error();
    // byte_count_ is the size that the file had when it was opened.
    if (count > end_ - begin_) return damaged_at(offset_, "it became shorter while it was read");
  }
  return std::span<const std::byte>(buffer_.subspan(begin_, count));
}

void SealedReader::skip(std::uint64_t count) {
  SEPAL_ASSERT(count <= remaining(), "a place behind the end of the file");
  go_to(offset_ + count);
}

void SealedReader::go_to(std::uint64_t offset) {
  SEPAL_ASSERT(offset <= byte_count_, "a place behind the end of the file");
  // A search goes back to the byte behind a false head, often thousands of times. So bytes that the buffer
  // still has, the taken ones among them, are not read again.
  const std::uint64_t buffered_from = offset_ - begin_;
  if (offset >= buffered_from && offset - buffered_from <= end_) {
    begin_ = static_cast<std::size_t>(offset - buffered_from);
  } else {
    begin_ = end_ = 0;
  }
  offset_ = offset;
}

Result<std::string> SealedReader::take_text(std::size_t count) {
  if (count > remaining()) return damaged_at(offset_, "it ends too early");
  // In pieces, because the text may be longer than the buffer.
  std::string text;
  text.reserve(count);
  while (text.size() < count) {
    const auto piece = take(std::min(count - text.size(), format::chunk_bytes));
    if (!piece) return piece.error();
    text.append(reinterpret_cast<const char*>(piece->data()), piece->size());
  }
  return text;
}

Result<std::span<const std::byte>> SealedReader::take_sealed(std::size_t count, std::string_view what) {
  SEPAL_ASSERT(count <= LoadBuffer::capacity - format::checksum_bytes,
               "the buffer does not hold the bytes and their checksum");
  const std::uint64_t start = offset_;
  const auto bytes = take(count + format::checksum_bytes);
  if (!bytes) return bytes.error();
  const auto contents = bytes->first(count);
  const format::U64 stored(load_little_endian<std::uint64_t>(bytes->data() + count));
  if (auto right = accept(stored, Checksum::of(contents), start, what); !right) return right.error();
  return contents;
}

Result<void> SealedReader::take_checksum(std::uint64_t expected, std::uint64_t start, std::string_view what) {
  const auto stored = take_structure<format::U64>();
  if (!stored) return stored.error();
  return accept(*stored, expected, start, what);
}

Result<void> SealedReader::accept(format::U64 stored, std::uint64_t expected, std::uint64_t start,
                                  std::string_view what) {
  if (stored != expected)
    return damaged_at(start, "the checksum of " + std::string(what) + " does not match");
  // Only here, so the seal covers exactly the checksums that were compared, in the order of the file.
  if (accepted_ != nullptr) {
    accepted_->push_back(stored);
  } else {
    seal_.update(format::bytes_of(stored));
  }
  return {};
}

void SealedReader::accept_read(std::span<const format::U64> checksums, std::uint64_t offset) {
  seal_.update(std::as_bytes(checksums));
  go_to(offset);
}

Result<void> SealedReader::refill() {
  // What was not taken moves to the front, so that bytes that are taken together stand together.
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::uint64_t at = offset_ + end_;
  SEPAL_ASSERT(at <= byte_count_, "the reader is behind the end of its file");
  const std::uint64_t left = byte_count_ - at;
  const std::size_t room = buffer_.size() - end_;
  const auto count = left < room ? static_cast<std::size_t>(left) : room;
  SEPAL_ASSERT(file_ != nullptr, "more is taken than the bytes in memory");
  const auto read = file_->read_at(at, buffer_.subspan(end_, count));
  if (!read) return read.error();
  SEPAL_ASSERT(*read <= count, "a file gives more bytes than were asked for");
  end_ += *read;
  return {};
}

}  // namespace sepal::storage
