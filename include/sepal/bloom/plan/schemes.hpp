// Schemes: how client programs that keep a Bloom filter of their own in a Redis string find the bits of an
// item. An item is the bytes that the program hashes: Guava's funnel or Redisson's codec may have made them
// of something else.
//
// m is the number of bits, k the number of positions. h1 and h2 are the first and the second 64 bits of
// MurmurHash3_x64_128 with seed 0. Position j of an item, for j from 0 to k - 1:
//
//     name               position j                                               the program
//     go-zero            h1(item and one more byte, j) mod m, and k is 14         go-zero's core/bloom
//     guava-32           |a + (j + 1) * b| mod m in 32 bits, a and b being the    Guava's MURMUR128_MITZ_32
//                        lower and the upper half of h1; |x| is x, or ~x where x is negative
//     guava-64           (h1 + j * h2 mod 2^63) mod m                             Guava's MURMUR128_MITZ_64
//     redisson           (g1 + ceil(j / 2) * g2 + floor(j / 2) * g1 mod 2^63)     Redisson's RBloomFilter
//                        mod m, g1 and g2 being HighwayHash's 128 bits under Redisson's key
//     murmur3-32         MurmurHash3_x86_32(item, seed + j) mod m                 mmh3.hash(.., signed=False)
//     murmur3-32-signed  the same, taken as a number with a sign. The remainder   mmh3.hash(item, seed) % m
//                        is not negative, as in Python
//     murmur3-128        MurmurHash3_x64_128(item, seed + j) mod m, h1 being      mmh3.hash128(item, seed)
//                        the lower half of the 128 bits                           % m
//
// https://github.com/aappleby/smhasher/wiki/MurmurHash3, https://arxiv.org/abs/1612.06257 (HighwayHash),
// https://github.com/google/guava (BloomFilterStrategies.java), https://github.com/redisson/redisson
// (RedissonBloomFilter.java), https://github.com/zeromicro/go-zero (core/bloom/bloom.go)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sepal::bloom {

// The numbers stand in images (image.hpp).
enum class Scheme : std::uint8_t {
  go_zero = 0,
  guava_32 = 1,
  guava_64 = 2,
  redisson = 3,
  murmur3_32 = 4,
  murmur3_32_signed = 5,
  murmur3_128 = 6,
};
inline constexpr Scheme scheme_last = Scheme::murmur3_128;

struct SchemeFacts {
  Scheme scheme = Scheme::go_zero;
  std::string_view name;
  std::uint32_t probe_count = 0;  // where it is fixed; else 0
  bool seeded = false;            // the first seed means something
};

// All schemes, by their numbers.
[[nodiscard]] std::span<const SchemeFacts> schemes();
[[nodiscard]] inline const SchemeFacts& facts_of(Scheme scheme) {
  return schemes()[static_cast<std::size_t>(scheme)];
}

inline constexpr std::uint64_t client_bits_max = std::uint64_t{1} << 32;  // as a Redis string has
inline constexpr std::uint32_t client_probe_count_max = 255;              // as in Guava's serialised form

// A bitmap of a client program.
struct ClientBits {
  Scheme scheme = Scheme::go_zero;
  std::uint64_t bit_count = 0;    // 1 .. client_bits_max
  std::uint32_t probe_count = 0;  // 1 .. client_probe_count_max
  std::uint32_t first_seed = 0;   // 0 where the scheme is not seeded

  friend bool operator==(const ClientBits&, const ClientBits&) = default;
};

// The numbers are in their ranges, and are those of the scheme.
[[nodiscard]] bool is_sound(const ClientBits& bits);

// Writes the positions of an item, each below bits.bit_count; some may be equal. `positions` has
// bits.probe_count places. `bits` is sound. Any thread.
void positions_of(std::string_view item, const ClientBits& bits, std::span<std::uint64_t> positions);

// Whether all bits of an item are set. Position p is bit p % 64, from the least significant, of word p / 64.
// Stops at the first bit that is not set. Nothing writes to the words meanwhile.
[[nodiscard]] bool holds(const std::uint64_t* words, const ClientBits& bits, std::string_view item);

// Below it all positions lie, though m may be larger: guava-32 makes numbers of 31 bits.
[[nodiscard]] std::uint64_t reach_of(const ClientBits& bits);

// How many different items set so many bits, on average. `bits_set` is at most bits.bit_count.
[[nodiscard]] std::uint64_t items_of(const ClientBits& bits, std::uint64_t bits_set);

}  // namespace sepal::bloom
