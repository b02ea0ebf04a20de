// Files and fingerprints outlive a build, so these tests check the values themselves: they are those of XXH3.
#include <sepal/base/hash.hpp>

#include "support/catch.hpp"

namespace hash_test {

using namespace sepal;

namespace {

// The bytes of xxHash's own sanity test.
std::string sample(std::size_t length) {
  constexpr std::uint64_t prime32 = 2654435761u;
  constexpr std::uint64_t prime64 = 11400714785074694797u;
  std::uint64_t generator = prime32;
  std::string bytes;
  for (std::size_t i = 0; i < length; ++i) {
    bytes.push_back(static_cast<char>(generator >> 56));
    generator *= prime64;
  }
  return bytes;
}

}  // namespace

TEST_CASE("an item's fingerprint is XXH3 of 128 bits") {
  CHECK(fingerprint_of("", 0) == Fingerprint{.low = 0x6001c324468d497f, .high = 0x99aa06d3014798d8});
  CHECK(fingerprint_of(sample(1), 0) == Fingerprint{.low = 0xc44bdff4074eecdb, .high = 0xa6cd5e9392000f6a});
  CHECK_FALSE(fingerprint_of("item", 1) == fingerprint_of("item", 2));
  CHECK_FALSE(fingerprint_of("item", 1) == fingerprint_of("iten", 1));
}

TEST_CASE("a hash of 64 bits depends on bytes and seed") {
  CHECK(hash64("", 0) == 0x2d06800538d394c2);
  CHECK(hash64(sample(1), 0) == 0xc44bdff4074eecdb);
  CHECK(hash64("key", 1) != hash64("key", 2));
  CHECK(hash64("key", 1) == hash64(std::string("key"), 1));
}

TEST_CASE("a checksum is the same for any pieces of the bytes") {
  const std::string bytes = sample(5000);
  const auto whole = std::as_bytes(std::span(bytes));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{256}, std::size_t{4999}}) {
    Checksum checksum;
    for (std::size_t at = 0; at < whole.size(); at += piece) {
      checksum.update(whole.subspan(at, std::min(piece, whole.size() - at)));
    }
    CHECK(checksum.value() == Checksum::of(whole));
  }
  CHECK(Checksum().value() == hash64("", 0));
}

TEST_CASE("a checksum notices every changed bit of a small record") {
  std::string bytes = sample(64);
  const std::uint64_t good = Checksum::of(std::as_bytes(std::span(bytes)));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    CHECK(Checksum::of(std::as_bytes(std::span(bytes))) != good);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
}

}  // namespace hash_test
