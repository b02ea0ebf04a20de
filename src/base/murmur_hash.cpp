#include <sepal/base/endian.hpp>
#include <sepal/base/hash.hpp>

#include <cstddef>

namespace sepal {

std::uint64_t murmur_hash_64a(std::string_view bytes, std::uint64_t seed) {
  constexpr std::uint64_t multiplier = 0xc6a4a7935bd1e995;
  constexpr std::uint32_t shift = 47;
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
  const std::byte* const words_end = at + bytes.size() / word_bytes * word_bytes;
  std::uint64_t hash = seed ^ (bytes.size() * multiplier);
  for (; at != words_end; at += word_bytes) {
    std::uint64_t word = load_little_endian<std::uint64_t>(at) * multiplier;
    word ^= word >> shift;
    hash = (hash ^ (word * multiplier)) * multiplier;
  }
  if (const std::size_t rest = bytes.size() % word_bytes; rest > 0) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < rest; ++i) word |= std::to_integer<std::uint64_t>(at[i]) << (8 * i);
    hash = (hash ^ word) * multiplier;
  }
  hash = (hash ^ (hash >> shift)) * multiplier;
  return hash ^ (hash >> shift);
}

}  // namespace sepal
