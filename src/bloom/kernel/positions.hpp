// Where the bits of an item are in a layer: in blocks of any width, quicker in blocks of a power of two, and
// anywhere in a layer without blocks. Position p of an item is bit p % 64 of word first_word() + p / 64.
#pragma once

#include <bit>
#include <cstdint>

#include "bloom/kernel/kernels.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {

struct OfBlocks {
  [[nodiscard]] static std::uint64_t first_word(const Blocks& blocks, const Fingerprint& item) {
    return block_of(item, blocks.block_count) * (blocks.block_bits / word_bits);
  }
};

struct AnyWidth : OfBlocks {
  std::uint64_t block_bits;

  explicit AnyWidth(const Blocks& blocks) : block_bits(blocks.block_bits) {}
  [[nodiscard]] std::uint64_t position(const Fingerprint& item, std::uint32_t probe) const {
    return scaled(item.high * probe_multipliers[probe], block_bits);
  }
};

// The same positions: the product of a fraction and 2^n is the fraction's first n bits.
struct PowerOfTwo : OfBlocks {
  int shift;

  explicit PowerOfTwo(const Blocks& blocks) : shift(64 - std::countr_zero(blocks.block_bits)) {}
  [[nodiscard]] std::uint64_t position(const Fingerprint& item, std::uint32_t probe) const {
    return (item.high * probe_multipliers[probe]) >> shift;
  }
};

// For a layer of Layout::double_hashing.
struct Anywhere {
  std::uint64_t bit_count;

  explicit Anywhere(const Blocks& blocks) : bit_count(blocks.block_count * word_bits) {}
  [[nodiscard]] static std::uint64_t first_word(const Blocks&, const Fingerprint&) { return 0; }
  [[nodiscard]] std::uint64_t position(const Fingerprint& item, std::uint32_t probe) const {
    return (item.low + probe * item.high) % bit_count;
  }
};

// Whether the width of the blocks is a power of two, or 0 because there are no blocks. Not
// std::has_single_bit: old processors count the bits for it in a loop.
[[nodiscard]] inline bool is_power_of_two(const Blocks& blocks) {
  return (blocks.block_bits & (blocks.block_bits - 1)) == 0;
}

// Calls use(positions) with the positions of these blocks.
template <class Use>
auto with_positions(const Blocks& blocks, const Use& use) {
  if (!is_power_of_two(blocks)) return use(AnyWidth(blocks));
  if (blocks.anywhere()) [[unlikely]]
    return use(Anywhere(blocks));
  return use(PowerOfTwo(blocks));
}

}  // namespace sepal::bloom
