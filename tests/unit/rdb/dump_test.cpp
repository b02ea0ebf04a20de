#include <sepal/rdb/dump.hpp>

#include "support/catch.hpp"

namespace dump_test {

namespace {

std::string length_bytes(std::uint64_t length) {
  std::string text;
  sepal::rdb::append_length(text, length);
  return text;
}

}  // namespace

TEST_CASE("a length takes the shortest form, and reads back") {
  CHECK(length_bytes(0) == std::string(1, '\0'));
  CHECK(length_bytes(63) == "\x3f");
  CHECK(length_bytes(64) == "\x40\x40");
  CHECK(length_bytes(16383) == "\x7f\xff");
  CHECK(length_bytes(16384) == std::string("\x80\x00\x00\x40\x00", 5));
  CHECK(length_bytes(0xffffffff) == "\x80\xff\xff\xff\xff");
  CHECK(length_bytes(0x100000000) == std::string("\x81\x00\x00\x00\x01\x00\x00\x00\x00", 9));
  for (const std::uint64_t length :
       {0ull, 63ull, 64ull, 16383ull, 16384ull, 0xffffffffull, 0x100000000ull, 0xfedcba9876543210ull}) {
    const std::string text = length_bytes(length);
    sepal::rdb::Reader reader(std::as_bytes(std::span(text)));
    CHECK(reader.length() == length);
    CHECK(reader.at_end());
  }
}

}  // namespace dump_test
