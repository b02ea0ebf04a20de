#include <sepal/base/hash.hpp>

#include <string>

#include "support/catch.hpp"

namespace murmur_hash_test {

using sepal::murmur_hash_64a;

TEST_CASE("items have the hashes that RedisBloom's cuckoo filters find them by") {
  CHECK(murmur_hash_64a("", 0) == 0);
  CHECK(murmur_hash_64a("a", 0) == 0x071717d2d36b6b11);
  CHECK(murmur_hash_64a("foo", 0) == 0xcdde38358fd25b01);
  CHECK(murmur_hash_64a("hello world", 0) == 0xd3ba2368a832afce);
}

}  // namespace murmur_hash_test
