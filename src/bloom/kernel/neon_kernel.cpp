// Eight lanes of 8 bits, one for each probe, for blocks that fill a cache line: those of most large filters.
// The plain kernel does all others.
//
// half_products.hpp has the arithmetic. The line is in four registers of 16 bytes, which one instruction
// takes as a table: each lane looks its byte up.
//
// Bits are set by the plain kernel: to make a line of an item's bits takes a hundred instructions, and the
// plain kernel some seventy.
#include "bloom/kernel/neon_kernel.hpp"

#include "bloom/kernel/vectors.hpp"

#if SEPAL_VECTORS && defined(__AARCH64EL__)

#include <arm_neon.h>
#include <array>

#include "bloom/kernel/half_products.hpp"
#include "bloom/kernel/plain_kernel.hpp"

namespace sepal::bloom {
namespace neon {
namespace {

constexpr std::uint32_t lane_count = line_probes_max;

// The probes of an item, a lane for each.
class Probes {
 public:
  explicit Probes(std::uint32_t probe_count) {
    constexpr std::array<std::uint8_t, lane_count> lanes{0, 1, 2, 3, 4, 5, 6, 7};
    unused_ = vcge_u8(vld1_u8(lanes.data()), vdup_n_u8(static_cast<std::uint8_t>(probe_count)));
  }

  // Whether all bits of the item are set in the line.
  [[nodiscard]] bool all_set(const std::uint64_t* line, std::uint64_t high) const {
    // The upper 16 bits of each product: the position is the upper 9 of them.
    const uint16x8_t products = vuzp2q_u16(vreinterpretq_u16_u32(upper_half(high, 0)),
                                           vreinterpretq_u16_u32(upper_half(high, lane_count / 2)));
    constexpr int bit_index_bits = 3;
    constexpr int byte_index_bits = line_position_bits - bit_index_bits;
    const uint8x8_t byte_index = vshr_n_u8(vshrn_n_u16(products, 8), 8 - byte_index_bits);
    const uint8x8_t bit_index =
        vand_u8(vshrn_n_u16(products, 16 - line_position_bits), vdup_n_u8((1 << bit_index_bits) - 1));
    const uint8x8_t bytes = vqtbl4_u8(vld1q_u8_x4(reinterpret_cast<const std::uint8_t*>(line)), byte_index);
    const uint8x8_t bits = vshl_u8(vdup_n_u8(1), vreinterpret_s8_u8(bit_index));
    const uint8x8_t set = vorr_u8(vtst_u8(bytes, bits), unused_);
    return vget_lane_u64(vreinterpret_u64_u8(set), 0) == ~std::uint64_t{0};
  }

 private:
  // Of the products with four multipliers.
  static uint32x4_t upper_half(std::uint64_t high, std::uint32_t first_probe) {
    const auto h0 = static_cast<std::uint32_t>(high);
    const auto h1 = static_cast<std::uint32_t>(high >> half_bits);
    const uint32x4_t lower = vld1q_u32(&half_multipliers.lower[first_probe]);
    const uint32x4_t upper = vld1q_u32(&half_multipliers.upper[first_probe]);
    const uint32x4_t crossed = vmlaq_n_u32(vmulq_n_u32(lower, h1), upper, h0);
    const uint64x2_t first_two = vmull_n_u32(vget_low_u32(lower), h0);
    const uint64x2_t last_two = vmull_high_n_u32(lower, h0);
    return vaddq_u32(crossed, vuzp2q_u32(vreinterpretq_u32_u64(first_two), vreinterpretq_u32_u64(last_two)));
  }

  uint8x8_t unused_;
};

void find_in_lines(const Blocks& blocks, Pending& pending) {
  const Probes probes(blocks.probe_count);
  const std::uint64_t* const words = blocks.words;
  const std::uint64_t block_count = blocks.block_count;
  std::uint64_t absent = 0;
  for (std::size_t at = 0; at < pending.count; ++at) {
    const std::uint64_t* const line = words + scaled(pending.low[at], block_count) * full_line_words;
    absent |= std::uint64_t{probes.all_set(line, pending.high[at]) ? 0U : 1U} << at;
  }
  pending.keep(absent);
}

void find(std::span<const Blocks> layers, Pending& pending) {
  find_by_shape(
      layers, pending, [&](const Blocks& blocks) { find_in_lines(blocks, pending); },
      [&](std::span<const Blocks> others) { plain_kernel().find(others, pending); });
}

}  // namespace
}  // namespace neon

const Kernel* neon_kernel() {
  static const Kernel kernel{.name = "neon", .find = neon::find, .set = plain_kernel().set};
  return &kernel;
}

}  // namespace sepal::bloom

#else

namespace sepal::bloom {

const Kernel* neon_kernel() {
  return nullptr;
}

}  // namespace sepal::bloom

#endif
