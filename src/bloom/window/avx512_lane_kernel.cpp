// Eight items at a time, one in each word of a vector. A probe of all eight is one gather, and the bits of
// all lanes of a filter come with it, as in the plain kernel. No branch depends on the bits: items that have
// no lane left are squeezed out of the columns.
//
// Stamps are compared for one item at a time, eight lanes at once. They are loaded before the bits, as the
// plain kernel does it: the processor keeps its loads in order, those of vectors too
// (bloom/kernel/vectors.hpp), and a fence binds the compiler.
#include "bloom/window/avx512_lane_kernel.hpp"

#include "bloom/kernel/vectors.hpp"

#if SEPAL_VECTORS && defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the undefined vectors of its own header for mistakes (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <algorithm>
#include <atomic>
#include <bit>

#include "bloom/kernel/avx512_lanes.hpp"
#include "bloom/window/plain_lane_kernel.hpp"

namespace sepal::bloom {
namespace avx512 {
namespace {

SEPAL_TARGET inline Lanes column_at(const SoughtItems::Column& column, std::size_t at) {
  return _mm512_load_si512(&column[at]);
}

// LaneItem::line() of eight items.
class ZoneLines {
 public:
  SEPAL_TARGET ZoneLines(const LaneBlocks& blocks, std::uint32_t zone)
      : factor_(in_all_lanes(line_factors[zone])),
        zone_lines_(in_all_lanes(blocks.zone_lines)),
        block_lines_(in_all_lanes(std::uint64_t{blocks.zones} * blocks.zone_lines)),
        first_line_(in_all_lanes(std::uint64_t{zone} * blocks.zone_lines)) {}

  [[nodiscard]] SEPAL_TARGET Lanes of(Lanes mixed, Lanes block) const {
    const Lanes product = _mm512_srli_epi64(_mm512_mullo_epi64(mixed, factor_), 32);
    const Lanes line = _mm512_srli_epi64(_mm512_mul_epu32(product, zone_lines_), 32);
    const Lanes before = _mm512_add_epi64(_mm512_mul_epu32(block, block_lines_), first_line_);
    return _mm512_slli_epi64(_mm512_add_epi64(before, line), std::countr_zero(lane_line_words));
  }

 private:
  Lanes factor_, zone_lines_, block_lines_, first_line_;
};

// LaneItem::lanes_in() of eight items.
class ZoneProbes {
 public:
  SEPAL_TARGET ZoneProbes(const LaneBlocks& blocks, std::uint32_t zone)
      : words_(blocks.words),
        factors_(&probe_multipliers[std::size_t{zone} * blocks.probes]),
        probes_(blocks.probes),
        groups_(in_all_lanes(blocks.groups)),
        group_bits_(in_all_lanes(blocks.lanes)) {}

  [[nodiscard]] SEPAL_TARGET Lanes lanes_in(__mmask8 items, Lanes mixed, Lanes line, Lanes lanes) const {
    for (std::uint32_t probe = 0; probe < probes_; ++probe) {
      const Lanes product = _mm512_mullo_epi64(mixed, in_all_lanes(factors_[probe]));
      const Lanes index = _mm512_add_epi64(line, _mm512_srli_epi64(product, 61));
      const Lanes words =
          _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), items, index, words_, sizeof(std::uint64_t));
      // mul_epu32 takes the low half of each word.
      const Lanes group = _mm512_srli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(product, 29), groups_), 32);
      lanes = _mm512_and_si512(lanes, _mm512_srlv_epi64(words, _mm512_mul_epu32(group, group_bits_)));
    }
    return lanes;
  }

 private:
  const std::uint64_t* words_;
  const std::uint64_t* factors_;
  std::uint32_t probes_;
  Lanes groups_, group_bits_;
};

// Reads a zone. Leaves the items that have a lane.
SEPAL_TARGET void read_zone(const LaneBlocks& blocks, std::uint32_t zone, SoughtItems& sought) {
  const ZoneProbes probes(blocks, zone);
  std::size_t left = 0;
  for (std::size_t at = 0; at < sought.count; at += lane_count) {
    const __mmask8 items = lanes_of(sought.count - at);
    const Lanes lanes = probes.lanes_in(items, column_at(sought.mixed, at), column_at(sought.line, at),
                                        column_at(sought.lanes, at));
    const __mmask8 stay = _mm512_mask_test_epi64_mask(items, lanes, lanes);
    // In place: `left` is at most `at`, so nothing is overwritten before it is read.
    const auto keep = [&](SoughtItems::Column& column, Lanes values) SEPAL_TARGET {
      _mm512_storeu_si512(&column[left], _mm512_maskz_compress_epi64(stay, values));
    };
    keep(sought.lanes, lanes);
    keep(sought.mixed, column_at(sought.mixed, at));
    keep(sought.block, column_at(sought.block, at));
    keep(sought.place, column_at(sought.place, at));
    left += static_cast<std::size_t>(std::popcount(stay));
  }
  sought.count = left;
}

// Finds the lines of a zone.
SEPAL_TARGET void find_lines(const LaneBlocks& blocks, std::uint32_t zone, const SoughtItems& sought,
                             SoughtItems::Column& its_lines) {
  const ZoneLines lines(blocks, zone);
  for (std::size_t at = 0; at < sought.count; at += lane_count)
    _mm512_store_si512(&its_lines[at], lines.of(column_at(sought.mixed, at), column_at(sought.block, at)));
}

// Finds them, and asks for them.
SEPAL_TARGET void fetch_zone(const LaneBlocks& blocks, std::uint32_t zone, const SoughtItems& sought,
                             SoughtItems::Column& its_lines) {
  find_lines(blocks, zone, sought, its_lines);
  const std::uint64_t* const words = blocks.words;
  for (std::size_t at = 0; at < sought.count; ++at) fetch_line(words + its_lines[at]);
}

SEPAL_TARGET void begin_find(const LaneBlocks& blocks, std::span<const std::uint64_t> hashes, Zones zones,
                             SoughtItems& sought) {
  if (hashes.size() <= few_sought_max || blocks.block_count > block_count_max)
    return plain_lane_kernel().begin(blocks, hashes, zones, sought);
  const std::size_t count = hashes.size();
  sought.count = count;
  sought.asked = zones;
  const Lanes block_count = in_all_lanes(blocks.block_count);
  const Lanes stamps = in_all_lanes(blocks.lanes);
  const ZoneLines lines(blocks, 0);
  Lanes place = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  alignas(64) SoughtItems::Column first_stamps;
  for (std::size_t at = 0; at < count; at += lane_count) {
    const Lanes hash = _mm512_maskz_loadu_epi64(lanes_of(count - at), &hashes[at]);
    const Lanes product = _mm512_mullo_epi64(hash, in_all_lanes(mixing_factor));
    const Lanes mixed = _mm512_xor_si512(product, _mm512_srli_epi64(product, mixing_shift));
    const Lanes block = scaled_lanes(hash, block_count);
    _mm512_store_si512(&sought.mixed[at], mixed);
    _mm512_store_si512(&sought.block[at], block);
    _mm512_store_si512(&sought.line[at], lines.of(mixed, block));
    _mm512_store_si512(&first_stamps[at], _mm512_mul_epu32(block, stamps));
    _mm512_store_si512(&sought.place[at], place);
    place = _mm512_add_epi64(place, in_all_lanes(lane_count));
  }
  for (std::size_t at = 0; at < count; ++at) {
    fetch_line(blocks.stamps + first_stamps[at]);
    fetch_line(blocks.words + sought.line[at]);
  }
  if (zones == Zones::all)
    for (std::uint32_t zone = 1; zone < blocks.zones; ++zone) fetch_zone(blocks, zone, sought, first_stamps);
}

// LaneItem::live_lanes() of all items.
SEPAL_TARGET void read_stamps(const LaneBlocks& blocks, const LiveStamps& live, SoughtItems& sought) {
  const std::uint32_t* const stamps = blocks.stamps;
  const std::uint32_t lane_total = blocks.lanes;
  for (std::uint32_t first = 0; first < lane_total; first += lane_count) {
    const __mmask8 lanes = lanes_of(lane_total - first);
    const __m256i wanted = _mm256_maskz_loadu_epi32(lanes, &live.stamps[first]);
    for (std::size_t at = 0; at < sought.count; ++at) {
      const __m256i found = _mm256_maskz_loadu_epi32(lanes, stamps + sought.block[at] * lane_total + first);
      const std::uint64_t same = _mm256_mask_cmpeq_epi32_mask(lanes, wanted, found);
      sought.lanes[at] = first == 0 ? same : sought.lanes[at] | same << first;
    }
  }
  std::atomic_thread_fence(std::memory_order_acquire);
}

SEPAL_TARGET void narrow(const LaneBlocks& blocks, const LiveStamps& live, SoughtItems& sought) {
  const std::size_t before = sought.count;
  if (before <= few_sought_max || blocks.block_count > block_count_max)
    return plain_lane_kernel().narrow(blocks, live, sought);
  read_stamps(blocks, live, sought);
  read_zone(blocks, 0, sought);
  if (blocks.zones == 1) return;
  if (sought.asked == Zones::all) return find_lines(blocks, 1, sought, sought.line);
  fetch_zone(blocks, 1, sought, sought.line);
  if (!sought.most_are_left(before)) return;
  sought.asked = Zones::all;
  alignas(64) SoughtItems::Column lines;
  for (std::uint32_t zone = 2; zone < blocks.zones; ++zone) fetch_zone(blocks, zone, sought, lines);
}

SEPAL_TARGET std::uint64_t end_find(const LaneBlocks& blocks, std::uint32_t sufficient, SoughtItems& sought) {
  if (sought.count <= few_sought_max || blocks.block_count > block_count_max)
    return plain_lane_kernel().end(blocks, sufficient, sought);
  for (std::uint32_t zone = 1; zone < blocks.zones && sought.count > 0; ++zone) {
    if (zone > 1 && sought.asked == Zones::all) find_lines(blocks, zone, sought, sought.line);
    if (zone > 1 && sought.asked == Zones::first) fetch_zone(blocks, zone, sought, sought.line);
    read_zone(blocks, zone, sought);
  }
  Lanes found = _mm512_setzero_si512();
  for (std::size_t at = 0; at < sought.count; at += lane_count) {
    const __mmask8 items = _mm512_mask_test_epi64_mask(lanes_of(sought.count - at),
                                                       column_at(sought.lanes, at), in_all_lanes(sufficient));
    const Lanes bits = _mm512_sllv_epi64(in_all_lanes(1), column_at(sought.place, at));
    found = _mm512_mask_or_epi64(found, items, found, bits);
  }
  return static_cast<std::uint64_t>(_mm512_reduce_or_epi64(found));
}

}  // namespace
}  // namespace avx512

const LaneKernel* avx512_lane_kernel() {
  static constexpr LaneKernel kernel{
      .name = "avx512", .begin = avx512::begin_find, .narrow = avx512::narrow, .end = avx512::end_find};
  return avx512::supported() ? &kernel : nullptr;
}

}  // namespace sepal::bloom

#else

namespace sepal::bloom {

const LaneKernel* avx512_lane_kernel() {
  return nullptr;
}

}  // namespace sepal::bloom

#endif
