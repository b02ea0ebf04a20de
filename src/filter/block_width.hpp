// Positions in blocks of any width, and quicker ones in blocks of a power of two.
#pragma once

#include <bit>
#include <cstdint>

#include "look_up.hpp"
#include "probe.hpp"

namespace sepal::filter {

struct AnyWidth {
  std::uint64_t block_bits;
  [[nodiscard]] std::uint64_t position(std::uint64_t product) const { return scaled(product, block_bits); }
};

// The same position: the product of a fraction and 2^n is the fraction's first n bits.
struct PowerOfTwo {
  int shift;
  [[nodiscard]] std::uint64_t position(std::uint64_t product) const { return product >> shift; }
};

// use(width) of these blocks.
template <class Use>
auto with_width(const Blocks& blocks, const Use& use) {
  if (!std::has_single_bit(blocks.block_bits)) return use(AnyWidth{.block_bits = blocks.block_bits});
  return use(PowerOfTwo{.shift = 64 - std::countr_zero(blocks.block_bits)});
}

}  // namespace sepal::filter
