// Little-endian fields one behind the other.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/result.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal {

// The bytes are not what was written.
[[nodiscard]] inline Error damaged(const char* detail) {
  return fail(Errc::damaged, detail);
}

[[nodiscard]] inline bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::ranges::equal(bytes.first(magic.size()), std::as_bytes(std::span(magic)));
}

// Takes fields in the order of the format. The caller has checked that they are there.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Integer>
  Integer integer() {
    SEPAL_ASSERT(sizeof(Integer) <= bytes_.size(), "a field is read behind the end of what was checked");
    const auto value = load_little_endian<Integer>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  double real() { return std::bit_cast<double>(integer<std::uint64_t>()); }

 private:
  std::span<const std::byte> bytes_;
};

// Puts fields one behind the other, in the order of the format, where there is room for them.
class FieldWriter {
 public:
  explicit FieldWriter(std::span<std::byte> bytes) : bytes_(bytes) {}

  template <class Integer>
  void integer(Integer value) {
    SEPAL_ASSERT(sizeof value <= bytes_.size(), "a field is written behind the end of its place");
    store_little_endian(bytes_.data(), value);
    bytes_ = bytes_.subspan(sizeof value);
  }
  void bytes(std::span<const std::byte> from) {
    SEPAL_ASSERT(from.size() <= bytes_.size(), "bytes are written behind the end of their place");
    std::ranges::copy(from, bytes_.begin());
    bytes_ = bytes_.subspan(from.size());
  }
  void real(double value) { integer(std::bit_cast<std::uint64_t>(value)); }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace sepal
