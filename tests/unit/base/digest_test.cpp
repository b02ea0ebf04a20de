#include <sepal/base/digest.hpp>

#include "support/catch.hpp"

namespace sepal::test::digest {

// The examples of FIPS 180-4.
TEST_CASE("digest: the standard's examples") {
  CHECK(sha1_hex("") == "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  CHECK(sha1_hex("abc") == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("digest: bytes of any value count") {
  using namespace std::string_view_literals;
  CHECK(sha1_hex("a\0b"sv) != sha1_hex("a"));
  CHECK(sha256_hex("\xff"sv).size() == 64);
}

}  // namespace sepal::test::digest
