// The positions must be those of the client programs, bit for bit: any other position would make the filter
// deny items that it has. Recorded vectors of the programs themselves hold them (tests/unit/bloom/schemes/).
// So the odd steps here, such as ~x for a negative x, or a remainder as Python has it, are the programs' own,
// and no mistakes.
//
// Each scheme gives its positions one after the other, and a look-up stops at the first bit that is clear.
// For an absent item this saves most of the hashing where each position is a hash of its own.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/plan/schemes.hpp>

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <murmurhash.h>

#include "bloom/plan/highway_hash.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

constexpr std::uint32_t go_zero_probe_count = 14;

constexpr std::array<SchemeFacts, 7> all_schemes = {{
    {.scheme = Scheme::go_zero, .name = "go-zero", .probe_count = go_zero_probe_count},
    {.scheme = Scheme::guava_32, .name = "guava-32"},
    {.scheme = Scheme::guava_64, .name = "guava-64"},
    {.scheme = Scheme::redisson, .name = "redisson"},
    {.scheme = Scheme::murmur3_32, .name = "murmur3-32", .seeded = true},
    {.scheme = Scheme::murmur3_32_signed, .name = "murmur3-32-signed", .seeded = true},
    {.scheme = Scheme::murmur3_128, .name = "murmur3-128", .seeded = true},
}};
static_assert(all_schemes.size() == static_cast<std::size_t>(scheme_last) + 1);
static_assert(std::ranges::is_sorted(all_schemes, {}, &SchemeFacts::scheme));

constexpr std::uint64_t without_sign = std::numeric_limits<std::int64_t>::max();

struct Hash128 {
  std::uint64_t first;
  std::uint64_t second;
};

Hash128 murmur3_128(std::string_view bytes, std::uint32_t seed) {
  std::array<std::uint64_t, 2> hash{};
  lmmh_x64_128(bytes.data(), static_cast<unsigned>(bytes.size()), seed, hash.data());
  return {.first = hash[0], .second = hash[1]};
}

std::uint32_t murmur3_32(std::string_view bytes, std::uint32_t seed) {
  std::uint32_t hash = 0;
  lmmh_x86_32(bytes.data(), static_cast<unsigned>(bytes.size()), seed, &hash);
  return hash;
}

Hash128 redisson_hash(std::string_view bytes) {
  constexpr HighwayKey key = {0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95};
  const auto hash = highway_hash_128(bytes, key);
  return {.first = hash[0], .second = hash[1]};
}

// Each of these calls visit(position) for one position after the other, until it answers false. They return
// whether it never did.

template <class Visit>
bool each_of_go_zero(std::string_view item, const ClientBits& bits, const Visit& visit) {
  // The hash wants the item and the byte in one piece, so the item is copied once and the byte is changed in
  // place.
  constexpr std::size_t usual_item_bytes = 255;
  boost::container::small_vector<char, usual_item_bytes + 1> bytes(item.begin(), item.end());
  bytes.push_back(0);
  for (std::uint32_t j = 0; j < bits.probe_count; ++j) {
    bytes.back() = static_cast<char>(j);
    if (!visit(murmur3_128({bytes.data(), bytes.size()}, 0).first % bits.bit_count)) return false;
  }
  return true;
}

template <class Visit>
bool each_of_guava_32(std::string_view item, const ClientBits& bits, const Visit& visit) {
  const std::uint64_t hash = murmur3_128(item, 0).first;
  const auto step = static_cast<std::uint32_t>(hash >> 32);
  auto combined = static_cast<std::uint32_t>(hash);
  for (std::uint32_t j = 0; j < bits.probe_count; ++j) {
    combined += step;
    // Java's numbers have a sign, and wrap. Unsigned numbers do the same without undefined behaviour.
    const bool negative = (combined >> 31) != 0;
    if (!visit((negative ? ~combined : combined) % bits.bit_count)) return false;
  }
  return true;
}

template <class Visit>
bool each_of_guava_64(std::string_view item, const ClientBits& bits, const Visit& visit) {
  Hash128 hash = murmur3_128(item, 0);
  for (std::uint32_t j = 0; j < bits.probe_count; ++j, hash.first += hash.second)
    if (!visit((hash.first & without_sign) % bits.bit_count)) return false;
  return true;
}

template <class Visit>
bool each_of_redisson(std::string_view item, const ClientBits& bits, const Visit& visit) {
  const Hash128 hash = redisson_hash(item);
  std::uint64_t combined = hash.first;
  for (std::uint32_t j = 0; j < bits.probe_count; ++j) {
    if (!visit((combined & without_sign) % bits.bit_count)) return false;
    // The sum that the header gives for position j + 1, made from that of position j.
    combined += j % 2 == 0 ? hash.second : hash.first;
  }
  return true;
}

// `position` makes a position of the bits and a seed.
template <class Visit, class Position>
bool each_of_seeds(const ClientBits& bits, const Visit& visit, const Position& position) {
  for (std::uint32_t j = 0; j < bits.probe_count; ++j)
    if (!visit(position(bits.first_seed + j))) return false;
  return true;
}

std::uint64_t remainder_as_in_python(std::uint32_t hash, std::uint64_t divisor) {
  const auto count = static_cast<std::int64_t>(divisor);
  // C++ gives a negative remainder of a negative number; Python's has the sign of the divisor.
  const std::int64_t remainder = static_cast<std::int32_t>(hash) % count;
  return static_cast<std::uint64_t>(remainder < 0 ? remainder + count : remainder);
}

std::uint64_t remainder_of(const Hash128& hash, std::uint64_t divisor) {
  __extension__ using Number = unsigned __int128;
  return static_cast<std::uint64_t>(((Number{hash.second} << 64) | hash.first) % divisor);
}

template <class Visit>
bool each_position(std::string_view item, const ClientBits& bits, const Visit& visit) {
  const std::uint64_t count = bits.bit_count;
  switch (bits.scheme) {
    case Scheme::go_zero: return each_of_go_zero(item, bits, visit);
    case Scheme::guava_32: return each_of_guava_32(item, bits, visit);
    case Scheme::guava_64: return each_of_guava_64(item, bits, visit);
    case Scheme::redisson: return each_of_redisson(item, bits, visit);
    case Scheme::murmur3_32:
      return each_of_seeds(bits, visit, [&](std::uint32_t seed) { return murmur3_32(item, seed) % count; });
    case Scheme::murmur3_32_signed:
      return each_of_seeds(bits, visit, [&](std::uint32_t seed) {
        return remainder_as_in_python(murmur3_32(item, seed), count);
      });
    case Scheme::murmur3_128:
      return each_of_seeds(bits, visit,
                           [&](std::uint32_t seed) { return remainder_of(murmur3_128(item, seed), count); });
  }
  SEPAL_ASSERT(false, "a scheme that is not on the list");
  return false;
}

}  // namespace

std::span<const SchemeFacts> schemes() {
  return all_schemes;
}

bool is_sound(const ClientBits& bits) {
  // facts_of() below takes the scheme as an index.
  if (bits.scheme > scheme_last || bits.bit_count == 0 || bits.bit_count > client_bits_max) return false;
  if (bits.probe_count == 0 || bits.probe_count > client_probe_count_max) return false;
  const SchemeFacts& facts = facts_of(bits.scheme);
  if (facts.probe_count != 0 && bits.probe_count != facts.probe_count) return false;
  return facts.seeded || bits.first_seed == 0;
}

void positions_of(std::string_view item, const ClientBits& bits, std::span<std::uint64_t> positions) {
  SEPAL_ASSERT(positions.size() == bits.probe_count, "there is one place for each position");
  auto next = positions.begin();
  (void)each_position(item, bits, [&](std::uint64_t position) {
    *next++ = position;
    return true;
  });
}

bool holds(const std::uint64_t* words, const ClientBits& bits, std::string_view item) {
  return each_position(item, bits, [&](std::uint64_t position) {
    return ((words[position / word_bits] >> (position % word_bits)) & 1) != 0;
  });
}

std::uint64_t reach_of(const ClientBits& bits) {
  constexpr std::uint64_t guava_32_reach = std::uint64_t{1} << 31;
  return bits.scheme == Scheme::guava_32 ? std::min(bits.bit_count, guava_32_reach) : bits.bit_count;
}

// n items leave a bit clear with the probability (1 - 1/m)^(k n). Where no bit is clear, half a bit is taken
// to be: more items than that cannot be told apart.
std::uint64_t items_of(const ClientBits& bits, std::uint64_t bits_set) {
  SEPAL_ASSERT(bits_set <= bits.bit_count, "more bits are set than there are");
  const auto reach = static_cast<double>(reach_of(bits));
  const double clear = std::max(reach - static_cast<double>(bits_set), 0.5) / reach;
  // The logarithm for a single bit would be infinite.
  const double of_one_item = bits.probe_count * std::log1p(-1 / std::max(reach, 2.0));
  return static_cast<std::uint64_t>(std::llround(std::log(clear) / of_one_item));
}

}  // namespace sepal::bloom
