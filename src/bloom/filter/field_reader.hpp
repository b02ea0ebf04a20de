// Reading little-endian fields one behind the other.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/base/result.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sepal::bloom {

// The bytes are not what was written.
[[nodiscard]] inline Error damaged(const char* detail) {
  return fail(Errc::damaged, detail);
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

}  // namespace sepal::bloom
