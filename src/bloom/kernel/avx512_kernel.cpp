// Eight lanes of 64 bits, filled in one of two ways:
//
//     a block within a cache line     a lane is a probe: the line is loaded once, each lane takes its word
//     any other block                 a lane is an item: eight items' words of one probe are gathered
//
// The second way tests the first probes of all items without a branch. It goes on only with the items that
// had all of them set, item by item and eight probes at a time. It gathers half of the first probes, and the
// other half only for the items still in question, because the lines of a large layer cost more than the
// arithmetic: an absent item touches two and a half lines instead of four.
//
// In nearly every layer the processor guesses wrong how many items go on. It finds out only when the last
// gather is done, and until then it begins nothing useful. So the items of a layer go on only after the first
// probes of the next layer were gathered, when their own words have long arrived.
//
// Only blocks within a line are asked for ahead. The gathers do not depend on each other, so the core has as
// many lines on their way as it can; asking a window ahead was measured to cost more than it saves.
//
// Bits are set in the first way: an item's bits become a line of their own, lane by lane, and are put into
// its block with one load and one store. Word by word, each store would have to wait for the one before,
// because the next probe's word may be the same.
#include "bloom/kernel/avx512_kernel.hpp"

#include "bloom/kernel/vectors.hpp"

#if SEPAL_VECTORS && defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined vectors of its own header for mistakes (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <algorithm>
#include <bit>
#include <immintrin.h>
#include <utility>

#include "bloom/kernel/avx2_kernel.hpp"
#include "bloom/kernel/avx512_lanes.hpp"
#include "bloom/kernel/plain_kernel.hpp"
#include "bloom/kernel/positions.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace avx512 {
namespace {

constexpr std::size_t line_items_few = 3;
constexpr std::size_t few_items_max = 4;
constexpr std::size_t some_items_max = 16;
// These probes are tested without a branch. With half of the bits set one item in 2^4 goes on.
constexpr std::uint32_t first_probes = 4;
// With more candidates, the layer holds most of them, and testing them in the next layer would be in vain.
constexpr int candidates_max = 16;

SEPAL_TARGET inline Lanes word_index(Lanes position) {
  return _mm512_srli_epi64(position, std::countr_zero(word_bits));
}

// Which of `lanes` have the bit of their position set in their word.
SEPAL_TARGET inline __mmask8 set_lanes(__mmask8 lanes, Lanes words, Lanes position) {
  // The rotation takes the position modulo the bits of a word.
  return _mm512_mask_test_epi64_mask(lanes, words, _mm512_rolv_epi64(in_all_lanes(1), position));
}

// A layer's shape in all lanes. It gives the index of the first word of an item's block, and the bit of the
// block that belongs to a product of the item with probe_multipliers[]. As AnyWidth and PowerOfTwo of
// positions.hpp.
class AnyWidthLanes {
 public:
  SEPAL_TARGET explicit AnyWidthLanes(const Blocks& blocks)
      : block_count_(in_all_lanes(blocks.block_count)),
        block_bits_(in_all_lanes(blocks.block_bits)),
        block_words_(in_all_lanes(blocks.block_bits / word_bits)) {}

  [[nodiscard]] SEPAL_TARGET Lanes first_words(Lanes low) const {
    return _mm512_mul_epu32(scaled_lanes(low, block_count_), block_words_);
  }
  [[nodiscard]] SEPAL_TARGET Lanes positions(Lanes products) const {
    return scaled_lanes(products, block_bits_);
  }

 private:
  Lanes block_count_;
  Lanes block_bits_;
  Lanes block_words_;
};

class PowerOfTwoLanes {
 public:
  SEPAL_TARGET explicit PowerOfTwoLanes(const Blocks& blocks)
      : block_count_(in_all_lanes(blocks.block_count)),
        position_shift_(_mm_cvtsi32_si128(64 - std::countr_zero(blocks.block_bits))),
        words_shift_(_mm_cvtsi32_si128(std::countr_zero(blocks.block_bits / word_bits))) {}

  [[nodiscard]] SEPAL_TARGET Lanes first_words(Lanes low) const {
    return _mm512_sll_epi64(scaled_lanes(low, block_count_), words_shift_);
  }
  [[nodiscard]] SEPAL_TARGET Lanes positions(Lanes products) const {
    return _mm512_srl_epi64(products, position_shift_);
  }

 private:
  Lanes block_count_;
  __m128i position_shift_;
  __m128i words_shift_;
};

// One bit for each item of the list.
using Items = std::uint64_t;
static_assert(window_items_max <= 64 && window_items_max % lane_count == 0);

// The products of the first multipliers, which are the same for all layers.
struct FirstProducts {
  alignas(64) std::array<Pending::Column, first_probes> of;

  SEPAL_TARGET void make(const Pending& pending) {
    for (std::size_t at = 0; at < pending.count; at += lane_count) {
      const Lanes high = _mm512_load_si512(&pending.high[at]);
      for (std::uint32_t probe = 0; probe < first_probes; ++probe) {
        const Lanes multiplier = in_all_lanes(probe_multipliers[probe]);
        _mm512_store_si512(&of[probe][at], _mm512_mullo_epi64(high, multiplier));
      }
    }
  }
};

bool is_of_lines(const Blocks& blocks) {
  return blocks.block_bits <= lane_count * word_bits && blocks.probe_count <= lane_count;
}

// The items that a layer of lines holds.
template <class Shape>
SEPAL_TARGET Items held_in_lines(const Blocks& blocks, const Pending& pending) {
  const Shape shape(blocks);
  const __mmask8 words = lanes_of(blocks.block_bits / word_bits);
  const __mmask8 probes = lanes_of(blocks.probe_count);
  const Lanes multipliers = _mm512_maskz_loadu_epi64(probes, probe_multipliers.data());
  alignas(64) std::array<std::uint64_t, lane_count> first_words;
  Items held = 0;
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    _mm512_store_si512(first_words.data(), shape.first_words(_mm512_load_si512(&pending.low[at])));
    const std::size_t end = std::min(at + lane_count, pending.count);
    for (std::size_t item = at; item < end; ++item) {
      // Masked: the words behind a narrow block may lie behind the bitmap. A masked lane cannot fault.
      const Lanes block = _mm512_maskz_loadu_epi64(words, blocks.words + first_words[item - at]);
      const Lanes positions =
          shape.positions(_mm512_mullo_epi64(in_all_lanes(pending.high[item]), multipliers));
      const Lanes probed = _mm512_permutexvar_epi64(word_index(positions), block);
      held |= Items{set_lanes(probes, probed, positions) == probes} << item;
    }
  }
  return held;
}

// Which of `lanes` have the bits at these positions set, each in the block that begins at its word.
SEPAL_TARGET inline __mmask8 probe_lanes(const Blocks& blocks, __mmask8 lanes, Lanes first_words,
                                         Lanes positions) {
  const Lanes indices = _mm512_add_epi64(first_words, word_index(positions));
  const Lanes words = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), lanes, indices, blocks.words,
                                                  sizeof(std::uint64_t));
  return set_lanes(lanes, words, positions);
}

// For any other layer of at least first_probes probes: the items whose first probes are set. Neither this
// loop nor what it calls has a branch that depends on the bits.
template <class Shape>
SEPAL_TARGET Items set_at_first(const Blocks& blocks, const Pending& pending, const FirstProducts& products) {
  const Shape shape(blocks);
  alignas(64) std::array<std::uint64_t, window_items_max> first_words;
  std::array<__mmask8, window_items_max / lane_count> still;
  const auto both = [&](std::uint32_t probe, std::size_t at, __mmask8 lanes, Lanes words) SEPAL_TARGET {
    const Lanes one = shape.positions(_mm512_load_si512(&products.of[probe][at]));
    const Lanes two = shape.positions(_mm512_load_si512(&products.of[probe + 1][at]));
    return static_cast<__mmask8>(probe_lanes(blocks, lanes, words, one) &
                                 probe_lanes(blocks, lanes, words, two));
  };
  static_assert(first_probes == 4);
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    const Lanes words = shape.first_words(_mm512_load_si512(&pending.low[at]));
    _mm512_store_si512(&first_words[at], words);
    still[at / lane_count] = both(0, at, lanes_of(pending.count - at), words);
  }
  Items set = 0;
  for (std::size_t at = 0; at < pending.count; at += lane_count) {
    const Lanes words = _mm512_load_si512(&first_words[at]);
    set |= Items{both(2, at, still[at / lane_count], words)} << at;
  }
  return set;
}

// Whether all probes of this item behind the first ones are set.
template <class Shape>
SEPAL_TARGET bool rest_is_set(const Blocks& blocks, const Shape& shape, const Fingerprint& item) {
  const Lanes first_word = in_all_lanes(OfBlocks::first_word(blocks, item));
  for (std::uint32_t probe = first_probes; probe < blocks.probe_count; probe += lane_count) {
    const __mmask8 lanes = lanes_of(blocks.probe_count - probe);
    const Lanes multipliers = _mm512_maskz_loadu_epi64(lanes, &probe_multipliers[probe]);
    const Lanes positions = shape.positions(_mm512_mullo_epi64(in_all_lanes(item.high), multipliers));
    if (probe_lanes(blocks, lanes, first_word, positions) != lanes) return false;
  }
  return true;
}

// The first probes of `items` are set. Returns the items that the layer holds.
template <class Shape>
SEPAL_TARGET Items held_of(Items items, const Blocks& blocks, const Pending& pending) {
  const Shape shape(blocks);
  Items held = items;
  for (; items != 0; items &= items - 1) {
    const auto item = static_cast<std::size_t>(std::countr_zero(items));
    if (!rest_is_set(blocks, shape, pending.fingerprint(item))) held ^= Items{1} << item;
  }
  return held;
}

// A window on its way through the layers. Its first probes are one layer ahead of the others.
class Search {
 public:
  explicit Search(Pending& pending) : pending_(pending) {}

  SEPAL_TARGET void look_in(const Blocks& blocks) {
    if (blocks.anywhere() || blocks.block_count > block_count_max) return look_plainly(blocks);
    if (is_of_lines(blocks)) return look_in_lines(blocks);
    if (blocks.probe_count < first_probes) return look_plainly(blocks);
    look_by_gathers(blocks);
  }

  // Finishes the tests of the layers so far.
  SEPAL_TARGET void finish_tests() {
    take(held_candidates());
    candidates_ = 0;
  }

 private:
  SEPAL_TARGET void look_plainly(const Blocks& blocks) {
    // The plain kernel takes items from the list itself. The candidates are places in the list, so they are
    // tested first.
    finish_tests();
    plain_kernel().find({&blocks, 1}, pending_);
    products_made_ = false;
  }

  SEPAL_TARGET void look_in_lines(const Blocks& blocks) {
    finish_tests();
    // Eight blocks' places are made together: for one or two items that takes longer than the rest.
    if (pending_.count <= line_items_few) {
      avx2_kernel()->find({&blocks, 1}, pending_);
      products_made_ = false;
      return;
    }
    take(is_power_of_two(blocks) ? held_in_lines<PowerOfTwoLanes>(blocks, pending_)
                                 : held_in_lines<AnyWidthLanes>(blocks, pending_));
  }

  SEPAL_TARGET void look_by_gathers(const Blocks& blocks) {
    if (!std::exchange(products_made_, true)) products_.make(pending_);
    const Items set = is_power_of_two(blocks) ? set_at_first<PowerOfTwoLanes>(blocks, pending_, products_)
                                              : set_at_first<AnyWidthLanes>(blocks, pending_, products_);
    // Only now: the gathers above are under way while the rest of the layer before is tested
    // (decisions/0008). Its items leave the list after that, and the bits of `set` move up with the items
    // that stay.
    const Items held = held_candidates();
    take(held);
    candidates_ = _pext_u64(set, ~held);
    // The layer outlives this pointer: find() finishes the tests before it returns.
    layer_ = &blocks;
    if (std::popcount(candidates_) > candidates_max) finish_tests();
  }

  [[nodiscard]] SEPAL_TARGET Items held_candidates() const {
    if (candidates_ == 0) return 0;
    return is_power_of_two(*layer_) ? held_of<PowerOfTwoLanes>(candidates_, *layer_, pending_)
                                    : held_of<AnyWidthLanes>(candidates_, *layer_, pending_);
  }

  // Takes these items from the list.
  SEPAL_TARGET void take(Items held) {
    if (held == 0) return;
    std::size_t left = 0;
    for (std::size_t at = 0; at < pending_.count; at += lane_count) {
      const auto stay = static_cast<__mmask8>(~(held >> at) & lanes_of(pending_.count - at));
      for (auto* column : {&pending_.low, &pending_.high, &pending_.index}) {
        // In place: `left` is at most `at`, so nothing is overwritten before it is read.
        const Lanes values = _mm512_load_si512(&(*column)[at]);
        _mm512_storeu_si512(&(*column)[left], _mm512_maskz_compress_epi64(stay, values));
      }
      left += static_cast<std::size_t>(std::popcount(stay));
    }
    pending_.count = left;
    // The products stand at the items' old places.
    products_made_ = false;
  }

  Pending& pending_;
  FirstProducts products_;  // for the items of the list, while products_made_
  bool products_made_ = false;
  const Blocks* layer_ = nullptr;  // where candidates_ were found
  Items candidates_ = 0;           // first probes set in layer_, the other probes still to be tested
};

// Whether a window goes through several layers faster item by item. One item costs vectors as much as eight.
// Where the window is small, known items leave the vectors nearly empty behind the first layers. The newest
// two have three quarters of the known items.
bool one_by_one(std::span<const Blocks> layers, const Pending& pending) {
  if (pending.count > some_items_max) return false;
  const std::span<const Blocks> newest = layers.first(2);
  return pending.count <= few_items_max || any_holds(newest, pending.fingerprint(0)) ||
         any_holds(newest, pending.fingerprint(1));
}

SEPAL_TARGET void find(std::span<const Blocks> layers, Pending& pending) {
  if (layers.size() > 1 && one_by_one(layers, pending)) return plain_kernel().find(layers, pending);
  Search search(pending);
  for (const Blocks& blocks : layers) {
    if (pending.count == 0) return;
    search.look_in(blocks);
  }
  search.finish_tests();
}

// The item's bits of a block within a line: lane w has the bits of word w.
template <class Shape>
SEPAL_TARGET Lanes bits_of(const Blocks& blocks, const Fingerprint& item) {
  const Shape shape(blocks);
  const __mmask8 probes = lanes_of(blocks.probe_count);
  const Lanes multipliers = _mm512_maskz_loadu_epi64(probes, probe_multipliers.data());
  const Lanes products = _mm512_mullo_epi64(in_all_lanes(item.high), multipliers);
  // The lanes without a probe get a position beyond all words.
  Lanes positions = _mm512_mask_mov_epi64(in_all_lanes(~std::uint64_t{0}), probes, shape.positions(products));
  const Lanes first_bits = _mm512_set_epi64(448, 384, 320, 256, 192, 128, 64, 0);
  Lanes bits = _mm512_setzero_si512();
  // Each lane meets each position once. Shifted by the distance from the first bit of the lane's word, a bit
  // leaves every word but its own.
#pragma GCC unroll 8
  for (std::size_t turn = 0; turn < lane_count; ++turn) {
    const Lanes distance = _mm512_sub_epi64(positions, first_bits);
    bits = _mm512_or_si512(bits, _mm512_sllv_epi64(in_all_lanes(1), distance));
    positions = _mm512_alignr_epi64(positions, positions, 1);
  }
  return bits;
}

SEPAL_TARGET bool set_lanes(const Blocks& blocks, std::uint64_t block, const Fingerprint& item) {
  if (!is_of_lines(blocks)) return plain_kernel().set(blocks, block, item);
  const Lanes bits =
      is_power_of_two(blocks) ? bits_of<PowerOfTwoLanes>(blocks, item) : bits_of<AnyWidthLanes>(blocks, item);
  const std::uint64_t block_words = blocks.block_bits / word_bits;
  const __mmask8 words = lanes_of(block_words);
  std::uint64_t* const at = blocks.words + block * block_words;
  const Lanes before = _mm512_maskz_loadu_epi64(words, at);
  const Lanes after = _mm512_or_si512(before, bits);
  _mm512_mask_storeu_epi64(at, words, after);
  return _mm512_cmpneq_epi64_mask(before, after) != 0;
}

}  // namespace
}  // namespace avx512

const Kernel* avx512_kernel() {
  static constexpr Kernel kernel{.name = "avx512", .find = avx512::find, .set = avx512::set_lanes};
  return avx2_kernel() != nullptr && avx512::supported() ? &kernel : nullptr;
}

}  // namespace sepal::bloom

#else

namespace sepal::bloom {

const Kernel* avx512_kernel() {
  return nullptr;
}

}  // namespace sepal::bloom

#endif
