// Reads and writes little-endian integers, whatever the byte order of the machine.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace sepal {

template <class Integer>
[[nodiscard]] Integer load_little_endian(const void* from) {
  static_assert(std::is_unsigned_v<Integer>);
  Integer value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) {
    Integer swapped = 0;
    for (std::size_t i = 0; i < sizeof value; ++i)
      swapped |= ((value >> (8 * i)) & 0xff) << (8 * (sizeof value - 1 - i));
    return swapped;
  }
  return value;
}

template <class Integer>
void store_little_endian(void* to, Integer value) {
  static_assert(std::is_unsigned_v<Integer>);
  if constexpr (std::endian::native == std::endian::big) {
    unsigned char bytes[sizeof value];
    for (std::size_t i = 0; i < sizeof value; ++i) bytes[i] = static_cast<unsigned char>(value >> (8 * i));
    std::memcpy(to, bytes, sizeof value);
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

}  // namespace sepal
