// A position in a block of 512 bits is the first 9 bits of a product modulo 2^64 (PowerOfTwo in
// positions.hpp), so only the product's upper half is needed. Vectors have products of 32 bits at most in
// AVX2 and NEON. For an item h = h1 * 2^32 + h0 and a multiplier m1 * 2^32 + m0 the upper half is, modulo
// 2^32,
//
//     h1 * m0 + h0 * m1 + floor(h0 * m0 / 2^32)
//
// which takes two products of 32 bits and one of 64 for a probe.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "bloom/kernel/kernels.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {

inline constexpr std::uint32_t line_bits = 512;
inline constexpr std::uint32_t line_probes_max = 8;
inline constexpr std::uint64_t full_line_words = line_bits / word_bits;
inline constexpr int half_bits = 32;
inline constexpr int line_position_bits = std::countr_zero(line_bits);

// Whether its blocks are lines, and an item's probes the lanes of a vector.
[[nodiscard]] inline bool is_of_full_lines(const Blocks& blocks) {
  return blocks.block_bits == line_bits && blocks.probe_count <= line_probes_max;
}

struct HalfMultipliers {
  alignas(32) std::array<std::uint32_t, line_probes_max> lower;
  alignas(32) std::array<std::uint32_t, line_probes_max> upper;
};
inline constexpr HalfMultipliers half_multipliers = [] {
  HalfMultipliers halves{};
  for (std::uint32_t probe = 0; probe < line_probes_max; ++probe) {
    halves.lower[probe] = static_cast<std::uint32_t>(probe_multipliers[probe]);
    halves.upper[probe] = static_cast<std::uint32_t>(probe_multipliers[probe] >> half_bits);
  }
  return halves;
}();

// Calls in_lines(blocks) for the layers of full lines, and `others` with all neighbours between them.
template <class InLines, class Others>
void find_by_shape(std::span<const Blocks> layers, const Pending& pending, const InLines& in_lines,
                   const Others& others) {
  for (std::size_t at = 0; at < layers.size() && pending.count > 0;) {
    if (is_of_full_lines(layers[at])) {
      in_lines(layers[at++]);
      continue;
    }
    const std::size_t first = at;
    while (at < layers.size() && !is_of_full_lines(layers[at])) ++at;
    others(layers.subspan(first, at - first));
  }
}

}  // namespace sepal::bloom
