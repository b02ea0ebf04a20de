// XXH3, the hash of the project: fingerprints of items, positions of keys, checksums of files. Filters that
// came from RedisBloom keep RedisBloom's hash.
// https://github.com/Cyan4973/xxHash
//
// The implementation is compiled in here, not linked: items are hashed on the hottest path there is, most
// items are short, and a call would cost as much as the hash.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sepal {

// The 128-bit hash of an item under a filter's seed.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

[[nodiscard]] inline Fingerprint fingerprint_of(std::string_view item, std::uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(item.data(), item.size(), seed);
  return {.low = hash.low64, .high = hash.high64};
}

[[nodiscard]] inline std::uint64_t hash64(std::string_view bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

// MurmurHash64A, RedisBloom's hash. The same on every machine.
// https://github.com/aappleby/smhasher (MurmurHash2.cpp, public domain)
[[nodiscard]] std::uint64_t murmur_hash_64a(std::string_view bytes, std::uint64_t seed);

// The checksum of all formats on disk: XXH3, 64 bits, seed 0, over bytes fed in any pieces. Confined. Not
// inline, unlike the functions above: it runs over buffers, not over items.
class Checksum {
 public:
  Checksum();

  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

  [[nodiscard]] static std::uint64_t of(std::span<const std::byte> bytes);

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const;
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace sepal
