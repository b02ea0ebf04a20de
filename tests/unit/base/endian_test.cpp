#include <sepal/base/endian.hpp>

#include "support/catch.hpp"

namespace endian_test {

using sepal::load_little_endian;
using sepal::store_little_endian;

TEST_CASE("the lowest byte comes first") {
  std::array<unsigned char, 9> bytes{};
  store_little_endian<std::uint64_t>(bytes.data() + 1, 0x0807060504030201);  // not aligned
  CHECK(bytes == std::array<unsigned char, 9>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(load_little_endian<std::uint64_t>(bytes.data() + 1) == 0x0807060504030201);
  CHECK(load_little_endian<std::uint32_t>(bytes.data() + 1) == 0x04030201);
  CHECK(load_little_endian<std::uint16_t>(bytes.data() + 3) == 0x0403);
  CHECK(load_little_endian<std::uint8_t>(bytes.data() + 8) == 8);
}

TEST_CASE("a stored number overwrites only its own bytes") {
  std::array<unsigned char, 4> bytes{0xaa, 0xaa, 0xaa, 0xaa};
  store_little_endian<std::uint16_t>(bytes.data() + 1, 0x0102);
  CHECK(bytes == std::array<unsigned char, 4>{0xaa, 0x02, 0x01, 0xaa});
}

}  // namespace endian_test
