// Writes values of the RDB format.
#pragma once

#include <sepal/base/endian.hpp>
#include <sepal/rdb/reader.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <lzf.h>
#include <span>
#include <string>
#include <string_view>

namespace sepal::test {

inline std::string unhex(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); at += 2)
    bytes += static_cast<char>(std::stoi(std::string(text.substr(at, 2)), nullptr, 16));
  return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Writes a dump, right or wrong.
class RdbText {
 public:
  // `length_bytes_min`: lengths take at least so many bytes, 1, 2, 5 or 9.
  explicit RdbText(int length_bytes_min = 1) : length_bytes_min_(length_bytes_min) {}

  std::string bytes;

  void length(std::uint64_t value) {
    if (length_bytes_min_ <= 1 && value < 1u << 6) return big_endian(value, 1);
    if (length_bytes_min_ <= 2 && value < 1u << 14) return big_endian(0x4000 | value, 2);
    const bool short_one = length_bytes_min_ <= 5 && value <= 0xffffffff;
    big_endian(short_one ? 0x80 : 0x81, 1);
    big_endian(value, short_one ? 4 : 8);
  }
  void number(std::uint64_t value) {
    length(2);
    length(value);
  }
  void real(double value) {
    length(4);
    little_endian(std::bit_cast<std::uint64_t>(value));
  }
  void string(std::string_view text) {
    length(5);
    length(text.size());
    bytes += text;
  }
  void packed(std::string_view packed_text, std::uint64_t unpacked_bytes) {
    length(5);
    bytes += '\xc3';
    length(packed_text.size());
    length(unpacked_bytes);
    bytes += packed_text;
  }
  void little_endian(std::uint64_t value) {
    std::string raw(sizeof value, '\0');
    store_little_endian(raw.data(), value);
    bytes += raw;
  }
  // The bytes with the right checksum.
  [[nodiscard]] std::string sealed() const {
    RdbText whole = *this;
    whole.little_endian(rdb::checksum(bytes_of(bytes)));
    return whole.bytes;
  }

 private:
  void big_endian(std::uint64_t value, int byte_count) {
    for (int shift = 8 * (byte_count - 1); shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  }

  int length_bytes_min_;
};

// Packs the bits where possible, as Redis does.
inline void write_packed(RdbText& text, std::string_view bits) {
  std::string packed(bits.size(), '\0');
  const unsigned byte_count = lzf_compress(bits.data(), static_cast<unsigned>(bits.size()), packed.data(),
                                           static_cast<unsigned>(packed.size()) - 1);
  if (byte_count == 0) return text.string(bits);
  text.packed(packed.substr(0, byte_count), bits.size());
}

}  // namespace sepal::test
