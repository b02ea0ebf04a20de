// LZF, from front to back. The packed bytes are a list of these:
//
//     000nnnnn and n + 1 bytes                  the bytes themselves
//     nnnddddd dddddddd, n from 1 to 6          n + 2 bytes are repeated that began d + 1 bytes ago
//     111ddddd nnnnnnnn dddddddd                n + 9 bytes, likewise
//
// No repetition means more than the last 8 KiB. So these, and what is unpacked next, are all that has to be
// in memory. (The library liblzf unpacks whole strings only. A layer of a filter may be a string of
// gigabytes.)
#include <sepal/base/assert.hpp>
#include <sepal/rdb/reader.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace sepal::rdb {
namespace {

constexpr std::size_t distance_max = 8192;
constexpr std::size_t unpacked_at_once = 32 << 10;
constexpr std::size_t packed_at_once = 16 << 10;
constexpr std::size_t repeated_max = 0xff + 7 + 2;
// Below it, the first byte begins bytes that stand for themselves.
constexpr std::uint8_t literal_end = 1 << 5;
// In the first three bits: another byte adds to the length.
constexpr std::uint8_t longer = 7;
constexpr std::uint8_t distance_mask = literal_end - 1;

Error cannot_be_unpacked() {
  return fail(Errc::damaged, "a packed string cannot be unpacked");
}

}  // namespace

struct StringReader::Buffers {
  // What a repetition may mean, what unpack() makes, and one repetition that begins just before that limit.
  std::array<std::byte, distance_max + unpacked_at_once + repeated_max> unpacked;
  std::size_t given = 0;  // bytes of `unpacked` that read() has given
  std::size_t end = 0;    // of the bytes that are unpacked
  std::array<std::byte, packed_at_once> packed;
  std::size_t packed_read = 0;
  std::size_t packed_end = 0;
};

void StringReader::Free::operator()(Buffers* buffers) const {
  delete buffers;
}

StringReader::StringReader(const String& string, Bytes& bytes)
    : bytes_(bytes),
      packed_(string.kind == String::Kind::packed),
      offset_(string.offset),
      bytes_left_(string.byte_count),
      string_left_(string.unpacked_bytes) {
  SEPAL_ASSERT(string.kind != String::Kind::number, "a string that is a number has no bytes to read");
  if (packed_) buffers_.reset(new Buffers);
}

Result<void> StringReader::read(std::span<std::byte> into) {
  SEPAL_ASSERT(into.size() <= string_left_, "more is read than the string has");
  string_left_ -= into.size();
  if (!packed_) {
    auto done = bytes_.read_at(offset_, into);
    offset_ += into.size();
    return done;
  }
  Buffers& buffers = *buffers_;
  while (!into.empty()) {
    if (buffers.given == buffers.end) {
      if (auto done = unpack(); !done) return done;
    }
    const std::size_t count = std::min(into.size(), buffers.end - buffers.given);
    std::copy_n(buffers.unpacked.data() + buffers.given, count, into.data());
    buffers.given += count;
    into = into.subspan(count);
  }
  // Bytes that are left over say that the lengths were wrong, though all bytes that were asked for could be
  // unpacked.
  const bool more =
      buffers.given != buffers.end || buffers.packed_read != buffers.packed_end || bytes_left_ != 0;
  if (string_left_ == 0 && more) return cannot_be_unpacked();
  return {};
}

// All that was unpacked has been given. Unpacks at least one byte.
Result<void> StringReader::unpack() {
  Buffers& buffers = *buffers_;
  // The last bytes move to the front, so that a repetition finds them there.
  const std::size_t kept = std::min(buffers.end, distance_max);
  std::memmove(buffers.unpacked.data(), buffers.unpacked.data() + buffers.end - kept, kept);
  buffers.given = buffers.end = kept;
  const bool at_end = buffers.packed_read == buffers.packed_end && bytes_left_ == 0;
  if (at_end) return cannot_be_unpacked();
  while (buffers.end < kept + unpacked_at_once) {
    if (buffers.packed_read == buffers.packed_end && bytes_left_ == 0) break;
    const auto first = packed_byte();
    if (!first) return first.error();
    auto done = *first < literal_end ? copy_literal(std::size_t{*first} + 1) : repeat(*first);
    if (!done) return done;
  }
  return {};
}

Result<std::uint8_t> StringReader::packed_byte() {
  Buffers& buffers = *buffers_;
  if (buffers.packed_read == buffers.packed_end) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_left_, packed_at_once));
    if (count == 0) return cannot_be_unpacked();
    if (auto done = bytes_.read_at(offset_, std::span(buffers.packed).first(count)); !done)
      return done.error();
    offset_ += count;
    bytes_left_ -= count;
    buffers.packed_read = 0;
    buffers.packed_end = count;
  }
  return std::to_integer<std::uint8_t>(buffers.packed[buffers.packed_read++]);
}

Result<void> StringReader::copy_literal(std::size_t byte_count) {
  for (; byte_count != 0; --byte_count) {
    const auto byte = packed_byte();
    if (!byte) return byte.error();
    buffers_->unpacked[buffers_->end++] = std::byte{*byte};
  }
  return {};
}

Result<void> StringReader::repeat(std::uint8_t first) {
  std::size_t byte_count = first >> 5;
  if (byte_count == longer) {
    const auto more = packed_byte();
    if (!more) return more.error();
    byte_count += *more;
  }
  byte_count += 2;
  const auto low = packed_byte();
  if (!low) return low.error();
  const std::size_t distance = (std::size_t{first} & distance_mask) << 8 | *low;
  Buffers& buffers = *buffers_;
  // A repetition of bytes before the string's first. Hostile input could otherwise read memory in front of
  // the buffer.
  if (distance >= buffers.end) return cannot_be_unpacked();
  // Byte by byte, because the repeated bytes may begin within the copy.
  std::byte* to = buffers.unpacked.data() + buffers.end;
  const std::byte* from = to - distance - 1;
  for (std::size_t i = 0; i < byte_count; ++i) to[i] = from[i];
  buffers.end += byte_count;
  return {};
}

}  // namespace sepal::rdb
