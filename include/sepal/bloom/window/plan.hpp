// Plans a filter that forgets by itself: what it is asked for, and the shape of its layers.
//
// Time is cut into *generations*, `generations` of them in a window. A filter has a *lane* for each, and one
// more: a lane has the items of one generation, and is used again when that is over.
//
//     layer    blocks
//     block    a stamp for each lane (32 bits: its generation) | zone | zone | ...
//     zone     lines of 64 bytes, of eight words
//     word     groups of one bit for each lane
//
// An item has one block, one line in each zone, and some groups of each line. Its bit of a group is that of
// the lane in which it was added. It is answered as present if one live lane has all of its bits. So an item
// is kept for at least a window, and for at most a window and a generation.
//
// A zone is a blocked Bloom filter for each lane (layer_plan.hpp), whose blocks are the lane's bits of a
// line. The zones of an absent item are independent, so a lane's rate is the product of theirs, and the
// filter's is the sum of the lanes' (Putze, Sanders, Singler call such a layout a blocked Bloom filter with
// x blocks an item).
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <span>

namespace sepal::bloom {

inline constexpr std::uint32_t window_generations_max = 16;
inline constexpr std::uint32_t window_generations_default = 4;
// A generation takes at least so long: then its number does not come again for 13 years.
inline constexpr std::uint64_t generation_milliseconds_min = 100;
// Ten thousand years of 366 days.
inline constexpr std::uint64_t window_milliseconds_max = std::uint64_t{10'000} * 366 * 86'400'000;

// No filter gets beyond these by itself. An image may begin there, so what is counted on stops at them.
inline constexpr std::uint64_t generation_number_max = std::uint64_t{1} << 61;
inline constexpr std::uint64_t window_layer_number_max = std::uint64_t{1} << 48;
inline constexpr std::uint64_t items_of_lane_max = std::uint64_t{1} << 56;

// What is asked of a filter. It keeps that as long as it lives.
struct WindowOptions {
  double error_rate = 0.01;    // over the whole window; in (0, 1)
  std::uint64_t capacity = 0;  // different items of a window
  // How much larger the next layer is, when a generation has more than its share; 0: such items are refused.
  std::uint32_t expansion = 2;
  // 0: the window is the last `capacity` items. Then nothing grows: a generation ends with its last item.
  std::uint64_t milliseconds = 0;
  std::uint32_t generations = window_generations_default;  // 1..window_generations_max
  bool refresh = false;  // an add of a known item makes it new; else its time runs from its first add
  std::uint64_t seed = 0;

  [[nodiscard]] bool of_last() const { return milliseconds == 0; }
  [[nodiscard]] std::uint32_t lanes() const { return generations + 1; }
  // The items that a generation has, if all have as many.
  [[nodiscard]] std::uint64_t generation_items() const { return (capacity - 1) / generations + 1; }
  friend bool operator==(const WindowOptions&, const WindowOptions&) = default;
};

inline constexpr std::uint32_t lane_line_bytes = 64;
inline constexpr std::uint32_t lane_line_words = lane_line_bytes / sizeof(std::uint64_t);
inline constexpr std::uint32_t zones_max = 8;
inline constexpr std::uint32_t zone_probes_max = 8;
inline constexpr std::uint32_t block_lines_max = 64;

// The shape of a layer. Immutable: it is part of every image.
struct LanePlan {
  std::uint64_t capacity = 0;  // items of a generation
  double error_rate = 0;       // of a lane that has them
  std::uint64_t block_count = 0;
  std::uint32_t zone_lines = 0;
  std::uint16_t zones = 0;
  std::uint16_t probes = 0;  // of a zone; zones * probes is at most probe_count_max

  // Stamps come first, and fill whole lines.
  [[nodiscard]] std::uint64_t stamp_bytes(std::uint32_t lanes) const {
    const std::uint64_t bytes = block_count * lanes * sizeof(std::uint32_t);
    return (bytes + lane_line_bytes - 1) / lane_line_bytes * lane_line_bytes;
  }
  [[nodiscard]] std::uint64_t byte_count(std::uint32_t lanes) const {
    return stamp_bytes(lanes) + block_count * zones * zone_lines * lane_line_bytes;
  }
  // The locks that the adds to such a layer may share: each has the same number of blocks.
  [[nodiscard]] std::uint32_t stripe_count() const;
  friend bool operator==(const LanePlan&, const LanePlan&) = default;
};

// Whether a filter could be asked for this. Errors: out_of_range.
Result<void> check(const WindowOptions& options);

// The first layer. A further layer may come within its window, so this one is planned with a rate that is a
// little lower than asked. Errors: out_of_range, too_large.
Result<LanePlan> plan_window(const WindowOptions& options, std::uint64_t bytes_max);

// A further layer, for so many items of a generation. `ages` has, for each number of generations that go by
// from now on, from 0 to options.generations, the sum of the rates of the lanes that are still live then. The
// new layer takes at most half of what these leave of the rate, so another one may follow at once. Errors:
// too_large.
Result<LanePlan> plan_growth(const WindowOptions& options, std::uint64_t generation_items,
                             std::span<const double> ages, std::uint64_t bytes_max);

// Whether a layer could have this shape: for bytes that come from outside.
[[nodiscard]] bool is_possible(const LanePlan& plan, std::uint32_t lanes);

// The rate of a lane that has so many items.
[[nodiscard]] double lane_rate(const LanePlan& plan, std::uint32_t lanes, std::uint64_t item_count);

}  // namespace sepal::bloom
