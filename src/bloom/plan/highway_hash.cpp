#include "bloom/plan/highway_hash.hpp"

#include <sepal/base/endian.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>

namespace sepal::bloom {
namespace {

using Words = std::array<std::uint64_t, 4>;
constexpr std::size_t packet_bytes = sizeof(Words);
constexpr int word_half = 32;

// The bytes of `word` that `mask` has.
constexpr std::uint64_t bytes_of(std::uint64_t word, std::uint64_t mask) {
  return word & mask;
}

class HighwayState {
 public:
  explicit HighwayState(const HighwayKey& key) {
    for (std::size_t i = 0; i < key.size(); ++i) {
      v0_[i] = mul0_[i] ^ key[i];
      v1_[i] = mul1_[i] ^ std::rotl(key[i], word_half);
    }
  }

  void update(const char* packet) {
    Words words;
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = load_little_endian<std::uint64_t>(packet + i * sizeof(std::uint64_t));
    update(words);
  }

  // The last 1 .. packet_bytes - 1 bytes. Their number is mixed in, so that zeros at the end count.
  void update_with_rest(std::string_view rest) {
    const std::size_t count = rest.size();
    for (std::uint64_t& word : v0_) word += (std::uint64_t{count} << word_half) + count;
    for (std::uint64_t& word : v1_) word = halves_rotated(word, static_cast<int>(count));
    std::array<char, packet_bytes> packet{};
    // The publication's layout of a last packet. From 16 bytes on, the last four bytes stand at its end as
    // well. Below that, up to three bytes behind the last whole four stand at 16 to 18: the first, the middle
    // and the last one.
    const std::size_t whole = count / 4 * 4;
    const std::size_t last = count % 4;
    std::copy_n(rest.data(), whole, packet.data());
    if ((count & 16) != 0) {
      std::copy_n(rest.data() + count - 4, 4, packet.data() + packet_bytes - 4);
    } else if (last != 0) {
      // With one or two bytes left, some of these are the same byte.
      packet[16] = rest[whole];
      packet[17] = rest[whole + last / 2];
      packet[18] = rest[count - 1];
    }
    update(packet.data());
  }

  [[nodiscard]] std::array<std::uint64_t, 2> finish_128() {
    constexpr int rounds = 6;
    for (int round = 0; round < rounds; ++round)
      update(Words{std::rotl(v0_[2], word_half), std::rotl(v0_[3], word_half), std::rotl(v0_[0], word_half),
                   std::rotl(v0_[1], word_half)});
    return {v0_[0] + mul0_[0] + v1_[2] + mul1_[2], v0_[1] + mul0_[1] + v1_[3] + mul1_[3]};
  }

 private:
  static std::uint64_t halves_rotated(std::uint64_t word, int count) {
    const auto upper = static_cast<std::uint32_t>(word >> word_half);
    return (std::uint64_t{std::rotl(upper, count)} << word_half) |
           std::rotl(static_cast<std::uint32_t>(word), count);
  }

  static std::uint64_t product_of_halves(std::uint64_t lower, std::uint64_t upper) {
    return (lower & 0xffffffff) * (upper >> word_half);
  }

  void update(const Words& packet) {
    for (std::size_t i = 0; i < packet.size(); ++i) {
      v1_[i] += mul0_[i] + packet[i];
      mul0_[i] ^= product_of_halves(v1_[i], v0_[i]);
      v0_[i] += mul1_[i];
      mul1_[i] ^= product_of_halves(v0_[i], v1_[i]);
    }
    zipper_merge_and_add(v1_, v0_);
    zipper_merge_and_add(v0_, v1_);
  }

  // Adds the bytes of each pair of words, in another order, to the same pair of `to`.
  static void zipper_merge_and_add(const Words& from, Words& to) {
    for (std::size_t i = 0; i < from.size(); i += 2) {
      const std::uint64_t even = from[i];
      const std::uint64_t odd = from[i + 1];
      to[i] += ((bytes_of(even, 0xff000000) | bytes_of(odd, 0xff00000000)) >> 24) |
               ((bytes_of(even, 0xff0000000000) | bytes_of(odd, 0xff000000000000)) >> 16) |
               bytes_of(even, 0xff0000) | (bytes_of(even, 0xff00) << 32) |
               (bytes_of(odd, 0xff00000000000000) >> 8) | (even << 56);
      to[i + 1] += ((bytes_of(odd, 0xff000000) | bytes_of(even, 0xff00000000)) >> 24) |
                   bytes_of(odd, 0xff0000) | (bytes_of(odd, 0xff0000000000) >> 16) |
                   (bytes_of(odd, 0xff00) << 24) | (bytes_of(even, 0xff000000000000) >> 8) |
                   (bytes_of(odd, 0xff) << 48) | bytes_of(even, 0xff00000000000000);
    }
  }

  Words mul0_ = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3};
  Words mul1_ = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377};
  Words v0_;
  Words v1_;
};

}  // namespace

std::array<std::uint64_t, 2> highway_hash_128(std::string_view bytes, const HighwayKey& key) {
  HighwayState state(key);
  for (; bytes.size() >= packet_bytes; bytes.remove_prefix(packet_bytes)) state.update(bytes.data());
  if (!bytes.empty()) state.update_with_rest(bytes);
  return state.finish_128();
}

}  // namespace sepal::bloom
