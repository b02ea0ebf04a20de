// Eight lanes of 64 bits, filled in one of two ways:
//
//     a block within a cache line     a lane is a probe: the line is loaded once, each lane takes its word
//     any other block                 a lane is an item: eight items' words of one probe are gathered
//
// The second tests the first probes of all items without a branch and goes on, item by item and eight probes
// at a time, only with those that had all of them set. Of these first probes it gathers one half before the
// other and then only for the items still in question, because the lines of a large layer cost more than the
// arithmetic: an absent item touches two and a half instead of four.
//
// Nothing is asked for ahead but blocks within a line: the gathers do not depend on each other, so the core
// has as many lines on the way as it can, and to ask a window before was measured to cost more than it saves.
//
// Other threads may be setting the bits that are loaded here. For the language these loads are races, as
// there are no atomic vector loads. For the processor a lane is an aligned word within one cache line, and
// such a word is loaded whole, in a gather and in a vector load of any alignment: so each lane is what a
// relaxed atomic load could have returned, and nothing here needs the lanes to be of one instant.
// ThreadSanitizer, which judges by the language, gets the plain kernel.
#include "avx512_kernel.hpp"

#if defined(__SANITIZE_THREAD__)
#define SEPAL_AVX512 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SEPAL_AVX512 0
#endif
#endif
#if !defined(SEPAL_AVX512) && defined(__x86_64__)
#define SEPAL_AVX512 1
#endif

#if SEPAL_AVX512

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined vectors of its own header for mistakes (its bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <algorithm>
#include <bit>
#include <immintrin.h>

#include "probe.hpp"

// Only what bears this may use the instructions, so that the rest of the program runs anywhere.
#define SEPAL_TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))

namespace sepal::filter {
namespace {

using Lanes = __m512i;

constexpr std::size_t lane_count = 8;
// The product of a lane and a count is put together from halves of 32 bits (scaled_lanes). A layer of more
// blocks takes hundreds of gigabytes, and waits for memory whatever the kernel.
constexpr std::uint64_t block_count_max = 0xffffffff;
// Tested without a branch. With half of the bits set one item in 2^4 goes on.
constexpr std::uint32_t first_probes = 4;

SEPAL_TARGET inline Lanes in_all_lanes(std::uint64_t value) {
  return _mm512_set1_epi64(static_cast<long long>(value));
}

SEPAL_TARGET inline __mmask8 lanes_of(std::size_t count) {
  return static_cast<__mmask8>(count >= lane_count ? 0xff : (1U << count) - 1);
}

// scaled() of probe.hpp, for counts up to block_count_max.
SEPAL_TARGET inline Lanes scaled_lanes(Lanes fraction, Lanes count) {
  const Lanes upper = _mm512_mul_epu32(_mm512_srli_epi64(fraction, 32), count);
  const Lanes lower = _mm512_srli_epi64(_mm512_mul_epu32(fraction, count), 32);
  return _mm512_srli_epi64(_mm512_add_epi64(upper, lower), 32);
}

SEPAL_TARGET inline Lanes word_index(Lanes position) {
  return _mm512_srli_epi64(position, std::countr_zero(word_bits));
}

// Which of `lanes` have the bit of their position set in their word.
SEPAL_TARGET inline __mmask8 set_lanes(__mmask8 lanes, Lanes words, Lanes position) {
  // The rotation takes the position modulo the bits of a word.
  return _mm512_mask_test_epi64_mask(lanes, words, _mm512_rolv_epi64(in_all_lanes(1), position));
}

// A layer's shape, in all lanes.
struct Shape {
  SEPAL_TARGET explicit Shape(const Blocks& blocks)
      : block_count(in_all_lanes(blocks.block_count)),
        block_bits(in_all_lanes(blocks.block_bits)),
        block_words(in_all_lanes(blocks.block_bits / word_bits)) {}

  // The indices of the first words of the items' blocks.
  [[nodiscard]] SEPAL_TARGET Lanes first_words(Lanes low) const {
    return _mm512_mullo_epi64(scaled_lanes(low, block_count), block_words);
  }
  [[nodiscard]] SEPAL_TARGET Lanes positions(Lanes high, Lanes multipliers) const {
    return scaled_lanes(_mm512_mullo_epi64(high, multipliers), block_bits);
  }

  Lanes block_count;
  Lanes block_bits;
  Lanes block_words;
};

// A bit for each item of the list: whether the layer holds it.
using Held = std::uint64_t;
static_assert(window_items_max <= 64 && window_items_max % lane_count == 0);

SEPAL_TARGET Held find_in_lines(const Blocks& blocks, const Pending& pending) {
  const Shape shape(blocks);
  const __mmask8 words = lanes_of(blocks.block_bits / word_bits);
  const __mmask8 probes = lanes_of(blocks.probe_count);
  const Lanes multipliers = _mm512_maskz_loadu_epi64(probes, probe_multipliers.data());
  alignas(64) std::array<std::uint64_t, lane_count> first_words;
  Held held = 0;
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    _mm512_store_si512(first_words.data(), shape.first_words(_mm512_load_si512(&pending.low[at])));
    const std::size_t end = std::min(at + lane_count, pending.count);
    for (std::size_t item = at; item < end; ++item) {
      const Lanes block = _mm512_maskz_loadu_epi64(words, blocks.words + first_words[item - at]);
      const Lanes positions = shape.positions(in_all_lanes(pending.high[item]), multipliers);
      const Lanes probed = _mm512_permutexvar_epi64(word_index(positions), block);
      held |= Held{set_lanes(probes, probed, positions) == probes} << item;
    }
  }
  return held;
}

// Which of `lanes` have set what these positions say, each in the block that begins at its word.
SEPAL_TARGET inline __mmask8 probe_lanes(const Blocks& blocks, __mmask8 lanes, Lanes first_words,
                                         Lanes positions) {
  const Lanes indices = _mm512_add_epi64(first_words, word_index(positions));
  const Lanes words = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), lanes, indices, blocks.words,
                                                  sizeof(std::uint64_t));
  return set_lanes(lanes, words, positions);
}

// Whether all probes but the first ones of this item are set.
SEPAL_TARGET bool holds_rest(const Blocks& blocks, const Shape& shape, std::uint64_t first_word,
                             std::uint64_t high) {
  for (std::uint32_t probe = first_probes; probe < blocks.probe_count; probe += lane_count) {
    const __mmask8 lanes = lanes_of(blocks.probe_count - probe);
    const Lanes multipliers = _mm512_maskz_loadu_epi64(lanes, &probe_multipliers[probe]);
    const Lanes positions = shape.positions(in_all_lanes(high), multipliers);
    if (probe_lanes(blocks, lanes, in_all_lanes(first_word), positions) != lanes) return false;
  }
  return true;
}

SEPAL_TARGET Held find_by_gathers(const Blocks& blocks, const Pending& pending) {
  const Shape shape(blocks);
  const std::uint32_t probes = std::min(blocks.probe_count, first_probes);
  const std::uint32_t probes_of_all = std::min(blocks.probe_count, first_probes / 2);
  alignas(64) std::array<std::uint64_t, window_items_max> first_words;
  std::array<__mmask8, window_items_max / lane_count> set;
  const auto test = [&](std::size_t at, std::uint32_t probe) SEPAL_TARGET {
    const Lanes positions =
        shape.positions(_mm512_load_si512(&pending.high[at]), in_all_lanes(probe_multipliers[probe]));
    return probe_lanes(blocks, set[at / lane_count], _mm512_load_si512(&first_words[at]), positions);
  };
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    _mm512_store_si512(&first_words[at], shape.first_words(_mm512_load_si512(&pending.low[at])));
    set[at / lane_count] = lanes_of(pending.count - at);
    __mmask8 still = 0xff;
    for (std::uint32_t probe = 0; probe < probes_of_all; ++probe) still &= test(at, probe);
    set[at / lane_count] = still;
  }
  Held held = 0;
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    __mmask8 still = set[at / lane_count];
    for (std::uint32_t probe = probes_of_all; probe < probes; ++probe) still &= test(at, probe);
    held |= Held{still} << at;
  }
  if (probes == blocks.probe_count) return held;
  for (Held left = held; left != 0; left &= left - 1) {
    const auto item = static_cast<std::size_t>(std::countr_zero(left));
    if (!holds_rest(blocks, shape, first_words[item], pending.high[item])) held ^= Held{1} << item;
  }
  return held;
}

SEPAL_TARGET void find(const Blocks& blocks, Pending& pending) {
  if (blocks.block_count > block_count_max || blocks.anywhere())
    return look_up_kernels().front().find(blocks, pending);
  const bool in_lines = blocks.block_bits <= lane_count * word_bits && blocks.probe_count <= lane_count;
  const Held held = in_lines ? find_in_lines(blocks, pending) : find_by_gathers(blocks, pending);
  if (held == 0) return;
  std::size_t left = 0;
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    const auto stay = static_cast<__mmask8>(~(held >> at) & lanes_of(pending.count - at));
    for (auto* column : {&pending.low, &pending.high, &pending.index}) {
      const Lanes values = _mm512_load_si512(&(*column)[at]);
      _mm512_storeu_si512(&(*column)[left], _mm512_maskz_compress_epi64(stay, values));
    }
    left += static_cast<std::size_t>(std::popcount(stay));
  }
  pending.count = left;
}

}  // namespace

const LookUpKernel* avx512_kernel() {
  static constexpr LookUpKernel kernel{.name = "AVX-512", .find = find};
  const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vl");
  return supported ? &kernel : nullptr;
}

}  // namespace sepal::filter

#else

namespace sepal::filter {

const LookUpKernel* avx512_kernel() {
  return nullptr;
}

}  // namespace sepal::filter

#endif
