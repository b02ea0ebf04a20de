// How a filter makes fingerprints of items. A filter of this project uses this project's hash. A filter that
// came from RedisBloom uses RedisBloom's, because that hash set the bits that it came with. A filter that
// began as the bitmap of a client program uses this project's hash in the layers above the bitmap.
#pragma once

#include <sepal/base/hash.hpp>

#include <cstdint>
#include <string_view>

namespace sepal::bloom {

enum class ItemHash : std::uint8_t {
  xxh3 = 0,        // 128 bits of XXH3 under the filter's seed
  redisbloom = 1,  // two hashes of MurmurHash64A; the filter's seed means nothing
  // 2 is in the heads of strings (strings/kind.cpp)
  xxh3_above_bitmap = 3,  // XXH3; the oldest layer is asked with the item itself (Layout::client)
};

// Hashes an item as RedisBloom does: `low` is murmur_hash_64a() under a seed of its own, `high` the same
// under `low`.
[[nodiscard]] Fingerprint redisbloom_fingerprint_of(std::string_view item);

[[nodiscard]] inline Fingerprint fingerprint_of(std::string_view item, ItemHash hash, std::uint64_t seed) {
  return hash == ItemHash::redisbloom ? redisbloom_fingerprint_of(item) : sepal::fingerprint_of(item, seed);
}

}  // namespace sepal::bloom
