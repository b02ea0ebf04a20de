// Eight lanes of 32 bits, one for each probe, for blocks that fill a cache line: those of most large filters.
// The plain kernel does all others.
//
// half_products.hpp has the arithmetic: for all eight probes two products of 32 bits and two of 64.
//
// The line is in two vectors. A lane takes the half-word of its position out of each of them, and a bit of
// the position says which of the two it keeps. AVX2's gather is not used: in processors without AVX-512 it is
// no faster than loads, and in some, since microcode closed a leak, much slower.
#include "bloom/kernel/avx2_kernel.hpp"

#include "bloom/kernel/vectors.hpp"

#if SEPAL_VECTORS && defined(__x86_64__)

#include <array>
#include <bit>
#include <immintrin.h>

#include "bloom/kernel/half_products.hpp"
#include "bloom/kernel/plain_kernel.hpp"

#define SEPAL_AVX2 __attribute__((target("avx2")))

namespace sepal::bloom {
namespace avx2 {
namespace {

using Halves = __m256i;  // eight of 32 bits

constexpr std::uint32_t lane_count = line_probes_max;
constexpr int half_index_shift = std::countr_zero(unsigned{half_bits});

SEPAL_AVX2 inline Halves in_all_lanes(std::uint32_t value) {
  return _mm256_set1_epi32(static_cast<int>(value));
}

// The probes of an item, a lane for each.
class Probes {
 public:
  SEPAL_AVX2 explicit Probes(std::uint32_t probe_count)
      : lower_(_mm256_load_si256(reinterpret_cast<const __m256i*>(half_multipliers.lower.data()))),
        upper_(_mm256_load_si256(reinterpret_cast<const __m256i*>(half_multipliers.upper.data()))),
        odd_lower_(_mm256_srli_epi64(lower_, half_bits)),
        used_(_mm256_cmpgt_epi32(in_all_lanes(probe_count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}

  // Of all lanes, used or not.
  [[nodiscard]] SEPAL_AVX2 Halves positions(std::uint64_t high) const {
    const Halves h0 = in_all_lanes(static_cast<std::uint32_t>(high));
    const Halves h1 = in_all_lanes(static_cast<std::uint32_t>(high >> half_bits));
    const Halves crossed = _mm256_add_epi32(_mm256_mullo_epi32(h1, lower_), _mm256_mullo_epi32(h0, upper_));
    const Halves even = _mm256_srli_epi64(_mm256_mul_epu32(h0, lower_), half_bits);
    const Halves odd = _mm256_mul_epu32(h0, odd_lower_);
    constexpr int odd_lanes = 0b10101010;
    const Halves carried = _mm256_blend_epi32(even, odd, odd_lanes);
    return _mm256_srli_epi32(_mm256_add_epi32(crossed, carried), half_bits - line_position_bits);
  }
  // All bits of the lanes that are used.
  [[nodiscard]] SEPAL_AVX2 Halves used() const { return used_; }

 private:
  Halves lower_;
  Halves upper_;
  Halves odd_lower_;
  Halves used_;
};

SEPAL_AVX2 inline Halves load(const std::uint64_t* words) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words));
}

// Whether all bits of the used lanes' positions are set in the line.
SEPAL_AVX2 inline bool all_set(const std::uint64_t* line, Halves positions, Halves used) {
  const Halves index = _mm256_srli_epi32(positions, half_index_shift);
  const Halves first = _mm256_permutevar8x32_epi32(load(line), index);
  const Halves second = _mm256_permutevar8x32_epi32(load(line + full_line_words / 2), index);
  // The uppermost bit of a lane chooses: that of its position which says in which vector it is.
  const Halves chooser = _mm256_slli_epi32(positions, half_bits - line_position_bits);
  const Halves probed = _mm256_castps_si256(_mm256_blendv_ps(
      _mm256_castsi256_ps(first), _mm256_castsi256_ps(second), _mm256_castsi256_ps(chooser)));
  const Halves shift = _mm256_and_si256(positions, in_all_lanes(half_bits - 1));
  const Halves bits = _mm256_sllv_epi32(_mm256_and_si256(used, in_all_lanes(1)), shift);
  return _mm256_testc_si256(probed, bits) != 0;
}

SEPAL_AVX2 void find_in_lines(const Blocks& blocks, Pending& pending) {
  const Probes probes(blocks.probe_count);
  const std::uint64_t* const words = blocks.words;
  const std::uint64_t block_count = blocks.block_count;
  std::uint64_t absent = 0;
  for (std::size_t at = 0; at < pending.count; ++at) {
    const std::uint64_t* const line = words + scaled(pending.low[at], block_count) * full_line_words;
    const bool held = all_set(line, probes.positions(pending.high[at]), probes.used());
    absent |= std::uint64_t{held ? 0U : 1U} << at;
  }
  pending.keep(absent);
}

void find(std::span<const Blocks> layers, Pending& pending) {
  find_by_shape(
      layers, pending, [&](const Blocks& blocks) { find_in_lines(blocks, pending); },
      [&](std::span<const Blocks> others) { plain_kernel().find(others, pending); });
}

SEPAL_AVX2 bool set(const Blocks& blocks, std::uint64_t block, const Fingerprint& item) {
  if (!is_of_full_lines(blocks)) return plain_kernel().set(blocks, block, item);
  const Probes probes(blocks.probe_count);
  // The lanes that are not used get a position beyond all half-words.
  Halves positions =
      _mm256_or_si256(probes.positions(item.high), _mm256_xor_si256(probes.used(), in_all_lanes(~0U)));
  const Halves first_bits = _mm256_setr_epi32(0, 32, 64, 96, 128, 160, 192, 224);
  const Halves turned = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0);
  const Halves one = in_all_lanes(1);
  Halves first = _mm256_setzero_si256();
  Halves second = _mm256_setzero_si256();
  // Each lane meets each position once. Shifted by the distance from the first bit of the lane's half-word, a
  // bit leaves every half-word but its own.
#pragma GCC unroll 8
  for (std::uint32_t turn = 0; turn < lane_count; ++turn) {
    const Halves distance = _mm256_sub_epi32(positions, first_bits);
    first = _mm256_or_si256(first, _mm256_sllv_epi32(one, distance));
    second = _mm256_or_si256(second,
                             _mm256_sllv_epi32(one, _mm256_sub_epi32(distance, in_all_lanes(line_bits / 2))));
    positions = _mm256_permutevar8x32_epi32(positions, turned);
  }
  std::uint64_t* const line = blocks.words + block * full_line_words;
  std::uint64_t* const half_line = line + full_line_words / 2;
  const Halves first_before = load(line);
  const Halves second_before = load(half_line);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(line), _mm256_or_si256(first_before, first));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(half_line), _mm256_or_si256(second_before, second));
  return (_mm256_testc_si256(first_before, first) & _mm256_testc_si256(second_before, second)) == 0;
}

}  // namespace
}  // namespace avx2

const Kernel* avx2_kernel() {
  static constexpr Kernel kernel{.name = "avx2", .find = avx2::find, .set = avx2::set};
  return __builtin_cpu_supports("avx2") ? &kernel : nullptr;
}

}  // namespace sepal::bloom

#else

namespace sepal::bloom {

const Kernel* avx2_kernel() {
  return nullptr;
}

}  // namespace sepal::bloom

#endif
