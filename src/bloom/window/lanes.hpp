// Where an item is in the blocks of a layer, and which lanes are live. This is part of the image format.
//
//     block        floor(hash * block_count / 2^64)
//     zone j       zone_lines lines of 64 bytes, j = 0 .. zones - 1
//     line         floor(high 32 bits of (mixed * line_factor[j]) * zone_lines / 2^32) of zone j
//     probe i      p = mixed * factor[j * probes + i]: word p >> 61 of the line; in it the group
//                  floor((p >> 29 mod 2^32) * groups / 2^32), where groups = floor(64 / lanes)
//     bit          lanes * group + lane of the word
//     lane         generation mod lanes
//     stamp        generation mod (2^32 - 1), plus 1; 0: the lane is empty. One for each lane of a block.
//
// So a probe reads the bits of all lanes at once, and one line tells of most absent items that they are
// absent. `hash` is the low half of an item's fingerprint under the filter's seed, and `mixed` is made of it:
// a journal has no room for the other half. The factors of probes are those of all Bloom filters
// (plan/probe.hpp), and those of lines are the next ones of the same series.
#pragma once

#include <sepal/bloom/window/plan.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bloom/plan/probe.hpp"

namespace sepal::bloom {

inline constexpr std::uint32_t lanes_max = window_generations_max + 1;

// A function of the hash alone, whose high bits do not follow those that choose the block.
inline constexpr std::uint64_t mixing_factor = 0xbf58476d1ce4e5b9;
inline constexpr int mixing_shift = 31;
[[nodiscard]] inline std::uint64_t mixed(std::uint64_t hash) {
  hash *= mixing_factor;
  return hash ^ (hash >> mixing_shift);
}

inline constexpr auto line_factors = make_multipliers<zones_max>(probe_count_max);

inline constexpr std::uint32_t stamp_max = 0xffff'ffff;
[[nodiscard]] inline std::uint32_t stamp_of(std::uint64_t generation) {
  return static_cast<std::uint32_t>(generation % stamp_max) + 1;
}

// The stamps of the lanes that are live in a generation: one for each lane.
struct LiveStamps {
  std::uint64_t generation = 0;
  std::uint32_t lanes = 0;
  std::uint32_t current = 0;  // the lane of this generation
  std::array<std::uint32_t, lanes_max> stamps{};

  // Needs `lane_count` generations before this one.
  LiveStamps(std::uint64_t now, std::uint32_t lane_count)
      : generation(now), lanes(lane_count), current(static_cast<std::uint32_t>(now % lane_count)) {
    std::uint32_t stamp = stamp_of(now);
    for (std::uint32_t lane = current, left = lane_count; left > 0; --left) {
      stamps[lane] = stamp;
      lane = lane == 0 ? lane_count - 1 : lane - 1;
      stamp = stamp == 1 ? stamp_max : stamp - 1;
    }
  }
  // The generation whose items a live lane has.
  [[nodiscard]] std::uint64_t generation_of(std::uint32_t lane) const {
    return generation - (current + lanes - lane) % lanes;
  }
};

// Writers hold the lock of the block, readers none.
template <class Word>
[[nodiscard]] inline Word read_word(const Word* word, std::memory_order order) {
  return std::atomic_ref<Word>(*const_cast<Word*>(word)).load(order);
}
template <class Word>
inline void write_word(Word* word, Word bits, std::memory_order order) {
  std::atomic_ref<Word>(*word).store(bits, order);
}

// The blocks of a layer: their stamps, and their lines.
struct LaneBlocks {
  std::uint32_t* stamps;  // of all lanes of a block, then those of the next
  std::uint64_t* words;   // of all zones of a block, then those of the next
  std::uint64_t block_count;
  std::uint32_t lanes;
  std::uint32_t groups;  // of a word
  std::uint32_t zone_lines;
  std::uint32_t zones;
  std::uint32_t probes;  // of a zone

  LaneBlocks(const LanePlan& plan, std::uint32_t lane_count, std::uint64_t* memory)
      : stamps(reinterpret_cast<std::uint32_t*>(memory)),
        words(memory + plan.stamp_bytes(lane_count) / sizeof(std::uint64_t)),
        block_count(plan.block_count),
        lanes(lane_count),
        groups(word_bits / lane_count),
        zone_lines(plan.zone_lines),
        zones(plan.zones),
        probes(plan.probes) {}

  [[nodiscard]] std::uint64_t block_words() const {
    return std::uint64_t{zones} * zone_lines * lane_line_words;
  }
};

// What loops run over: known to the compiler for the usual filters, and read from the blocks for others.
template <std::uint32_t lane_count, std::uint32_t probe_count>
struct FixedShape {
  static constexpr std::uint32_t lanes() { return lane_count; }
  static constexpr std::uint32_t groups() { return word_bits / lane_count; }
  static constexpr std::uint32_t probes() { return probe_count; }
};
class AnyShape {
 public:
  explicit AnyShape(const LaneBlocks& blocks)
      : lanes_(blocks.lanes), groups_(blocks.groups), probes_(blocks.probes) {}
  [[nodiscard]] std::uint32_t lanes() const { return lanes_; }
  [[nodiscard]] std::uint32_t groups() const { return groups_; }
  [[nodiscard]] std::uint32_t probes() const { return probes_; }

 private:
  std::uint32_t lanes_, groups_, probes_;
};
// Calls use(shape).
template <class Use>
auto with_shape(const LaneBlocks& blocks, const Use& use) {
  constexpr std::uint32_t usual_lanes = window_generations_default + 1;
  if (blocks.lanes == usual_lanes) {
    if (blocks.probes == 3) return use(FixedShape<usual_lanes, 3>());
    if (blocks.probes == 4) return use(FixedShape<usual_lanes, 4>());
  }
  return use(AnyShape(blocks));
}

// Asks for a line that is about to be read, into the second-level cache. There a core has places for more
// lines on their way than in the first (decision 0053).
[[gnu::always_inline]] inline void fetch_line(const void* line) {
  constexpr int second_cache = 2;  // locality, as the compiler counts it
  __builtin_prefetch(line, 0, second_cache);
}

// An item in a layer.
class LaneItem {
 public:
  LaneItem(const LaneBlocks& blocks, std::uint64_t hash)
      : mixed_(mixed(hash)), block_(scaled(hash, blocks.block_count)) {}
  LaneItem(std::uint64_t mixed_hash, std::uint64_t block) : mixed_(mixed_hash), block_(block) {}

  [[nodiscard]] std::uint64_t mixed_hash() const { return mixed_; }
  [[nodiscard]] std::uint64_t block() const { return block_; }

  [[nodiscard]] const std::uint32_t* stamps(const LaneBlocks& blocks) const {
    return blocks.stamps + block_ * blocks.lanes;
  }
  // The first word of its line in a zone.
  [[nodiscard]] std::uint64_t line(const LaneBlocks& blocks, std::uint32_t zone) const {
    const std::uint64_t product = mixed_ * line_factors[zone];
    const std::uint64_t line = (product >> 32) * blocks.zone_lines >> 32;
    return ((block_ * blocks.zones + zone) * blocks.zone_lines + line) * lane_line_words;
  }
  // Calls use(word, shift) for each probe of a zone, whose line is `its_line`: the bits of all lanes begin at
  // bit `shift` of the word.
  template <class Shape, class Use>
  [[gnu::always_inline]] void each_probe(const Shape& shape, std::uint32_t zone, std::uint64_t* its_line,
                                         const Use& use) const {
    const std::uint64_t* const factors = &probe_multipliers[zone * shape.probes()];
    for (std::uint32_t probe = 0; probe < shape.probes(); ++probe) {
      const std::uint64_t product = mixed_ * factors[probe];
      const auto group = static_cast<std::uint32_t>(
          std::uint64_t{static_cast<std::uint32_t>(product >> 29)} * shape.groups() >> 32);
      use(its_line + (product >> 61), group * shape.lanes());
    }
  }

  // The live lanes of its block, a bit for each. Read before the bits: so a lane that is used again meanwhile
  // is taken for empty, or for one whose time is over.
  template <class Shape>
  [[nodiscard, gnu::always_inline]] std::uint32_t live_lanes(const LaneBlocks& blocks, const Shape& shape,
                                                             const LiveStamps& live) const {
    const std::uint32_t* const its_stamps = stamps(blocks);
    std::uint32_t lanes = 0;
    for (std::uint32_t lane = 0; lane < shape.lanes(); ++lane)
      lanes |= static_cast<std::uint32_t>(read_word(its_stamps + lane, std::memory_order_acquire) ==
                                          live.stamps[lane])
               << lane;
    return lanes;
  }
  // Those of `lanes` that have all bits of a zone, whose line is `its_line`.
  template <class Shape>
  [[nodiscard, gnu::always_inline]] std::uint32_t lanes_in(const Shape& shape, std::uint32_t zone,
                                                           std::uint64_t* its_line,
                                                           std::uint32_t lanes) const {
    each_probe(shape, zone, its_line, [&](const std::uint64_t* word, std::uint32_t shift) {
      lanes &= static_cast<std::uint32_t>(read_word(word, std::memory_order_relaxed) >> shift);
    });
    return lanes;
  }

  // Sets its bits in the lane of this generation. A lane of another generation is emptied first. With the
  // lock of the block.
  template <class Shape>
  void set(const LaneBlocks& blocks, const Shape& shape, const LiveStamps& live) const {
    std::uint32_t* const stamp = const_cast<std::uint32_t*>(stamps(blocks)) + live.current;
    if (read_word(stamp, std::memory_order_relaxed) != live.stamps[live.current])
      empty_lane(blocks, stamp, live);
    for (std::uint32_t zone = 0; zone < blocks.zones; ++zone)
      each_probe(
          shape, zone, blocks.words + line(blocks, zone), [&](std::uint64_t* word, std::uint32_t shift) {
            const std::uint64_t bits = read_word(word, std::memory_order_relaxed);
            write_word(word, bits | std::uint64_t{1} << (shift + live.current), std::memory_order_release);
          });
  }

 private:
  void empty_lane(const LaneBlocks& blocks, std::uint32_t* stamp, const LiveStamps& live) const {
    std::uint64_t lane_bits = 0;
    for (std::uint32_t group = 0; group < blocks.groups; ++group)
      lane_bits |= std::uint64_t{1} << (group * blocks.lanes + live.current);
    write_word(stamp, std::uint32_t{0}, std::memory_order_relaxed);
    std::uint64_t* const first = blocks.words + block_ * blocks.block_words();
    for (std::uint64_t* word = first; word != first + blocks.block_words(); ++word)
      write_word(word, read_word(word, std::memory_order_relaxed) & ~lane_bits, std::memory_order_release);
    // No reader that sees the new stamp sees an old bit.
    write_word(stamp, live.stamps[live.current], std::memory_order_release);
  }

  std::uint64_t mixed_;
  std::uint64_t block_;
};

}  // namespace sepal::bloom
