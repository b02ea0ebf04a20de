// Where a fingerprint's bits are. This is part of the image format: other positions are another format.
//
//     block            floor(low * block_count / 2^64)
//     position j       floor((high * multiplier[j] mod 2^64) * block_bits / 2^64),   j = 0 .. probe_count - 1
//     bit p of a block word p / 64 of the block, bit p % 64 of the word, bit 0 being the least significant
//
// Both are multiply-shift: no division, and no power of two needed. The block takes one half of the
// fingerprint and the positions the other, so that items that share a block still have independent positions.
// Each position has a multiplier of its own, because positions in arithmetic progression (double hashing)
// repeat each other's collisions: with them a filter of 1% was measured at 1.06%.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>

#include <array>
#include <cstdint>

namespace sepal::bloom {

inline constexpr std::uint32_t word_bits = 64;

// Outputs of SplitMix64 from state 0 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014), made odd. The first ones are left out.
template <std::uint32_t count>
constexpr std::array<std::uint64_t, count> make_multipliers(std::uint32_t left_out = 0) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15;
  std::array<std::uint64_t, count> multipliers{};
  std::uint64_t state = left_out * step;
  for (auto& multiplier : multipliers) {
    state += step;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    multiplier = (mixed ^ (mixed >> 31)) | 1;
  }
  return multipliers;
}

inline constexpr auto probe_multipliers = make_multipliers<probe_count_max>();

// floor(fraction * count / 2^64): below `count`.
[[nodiscard]] inline std::uint64_t scaled(std::uint64_t fraction, std::uint64_t count) {
  __extension__ using Product = unsigned __int128;
  return static_cast<std::uint64_t>((Product{fraction} * count) >> 64);
}

[[nodiscard]] inline std::uint64_t block_of(const Fingerprint& fingerprint, std::uint64_t block_count) {
  return scaled(fingerprint.low, block_count);
}

[[nodiscard]] inline std::uint32_t position_of(const Fingerprint& fingerprint, std::uint32_t probe_index,
                                               std::uint32_t block_bits) {
  return static_cast<std::uint32_t>(scaled(fingerprint.high * probe_multipliers[probe_index], block_bits));
}

}  // namespace sepal::bloom
