#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/item_hash.hpp>

namespace sepal::bloom {

Fingerprint redisbloom_fingerprint_of(std::string_view item) {
  constexpr std::uint64_t redisbloom_seed = 0xc6a4a7935bd1e995;
  const std::uint64_t low = murmur_hash_64a(item, redisbloom_seed);
  return {.low = low, .high = murmur_hash_64a(item, low)};
}

}  // namespace sepal::bloom
