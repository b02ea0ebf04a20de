// A filter that forgets, made of others: what one of them would answer "seen" to, the new one does, for as
// long as that one would have.
//
// Filters of one seed and shape put an item at the same place of a layer, and filters whose generations are
// of one length count them alike, from 1970 on. So a lane has the same generation in each of them, where it
// is live: the bits of the live lanes are ORed, and lanes that are over are left out. A filter of the last
// items counts generations of its own, and cannot be united.
//
// What is added meanwhile, in a generation that begins meanwhile, may take a lane that was live when the
// union began. Its items are over then, in the union as well.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/result.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sepal::bloom {

// What a count of a union may be: the largest one of the parts, up to their sum.
struct CountBounds {
  std::uint64_t largest = 0;
  std::uint64_t sum = 0;
};
using LaneBounds = std::array<CountBounds, window_generations_max + 1>;

struct WindowUnion {
  // The first layer of each part, and those behind it, go into the first one of the new filter, and so on.
  // Older layers whose items are over are left out.
  using Part = std::vector<std::shared_ptr<WindowLayer>>;

  WindowFilter::Restored shape;  // the counts are zeros until count_union()
  std::vector<Part> parts;
  std::size_t followed = 0;       // the layer that gets the adds of the continued part meanwhile
  LaneBounds items{};             // of each lane
  std::vector<LaneBounds> taken;  // the same for the places of each layer

  [[nodiscard]] std::uint64_t layer_bytes() const;
};

// A record has room for so many.
inline constexpr std::uint32_t united_window_layers_max = 256;

// --- exclusive --------------------------------------------------------------------------------------------

// The options of the filters, the layers of the one with the most, and the latest generation of all, or that
// of `now` if it is later. If the filter `continued` goes on, its layers keep their numbers. There is at
// least one filter. Errors, with a sentence: out_of_range where they differ in what they must share, or where
// one is so far ahead of the clock that the items of another would be over.
Result<WindowUnion> union_of(std::span<const WindowFilter* const> filters,
                             std::optional<std::size_t> continued, WallTime now);

// --- any thread -------------------------------------------------------------------------------------------

struct WindowUnionMeasure {
  double error_rate = 0;  // now
  // The highest one until the items are over, if all later generations get their share.
  double highest_rate = 0;
  std::uint64_t items = 0;  // about: in the generation that has the most
};
// What a sample of the bits says, which reads so many bytes of each part. Sets the counts of the shape to
// that, within their bounds.
[[nodiscard]] WindowUnionMeasure count_union(WindowUnion& whole, std::uint64_t bytes_max);

// Sets the bits. No other thread knows `into`, which was restored from the shape and has its layers; but
// go_on() may repeat records of adds to it. `bytes_done` grows with what was read. Errors: io (given up).
Result<void> take_parts(WindowFilter& into, const WindowUnion& whole, const value::GoOn& go_on,
                        std::uint64_t& bytes_done);

// Whether no generation of a layer got more than its share, and a little, by adds that were repeated.
[[nodiscard]] bool keeps_shares(const WindowFilter& made, const WindowUnion& whole);

// What a record says of a part (KindRow::Part::extent): how many layers were taken, 16 bits, and the low bits
// of the first one's number, 16 bits.
[[nodiscard]] std::uint32_t extent_of(const WindowUnion::Part& part);
// The union that a record tells of. The filters may have changed since: layers that are gone are over.
// Errors: damaged (these filters do not make that one).
Result<WindowUnion> recorded_union(WindowFilter::Restored shape, std::span<const value::KindRow::Part> parts);

}  // namespace sepal::bloom
