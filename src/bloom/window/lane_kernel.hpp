// Looking for many items in the blocks of a layer (lanes.hpp): the innermost loops of filters that forget.
//
// There is a plain kernel, and one for processors with AVX-512. Both give the same answers. They go with the
// kernels of other filters (bloom/kernel/kernels.hpp): the same name chooses both.
//
// A look-up has three steps, and other batches take theirs between two of them, while memory is on its way:
//
//     begin    finds the items' blocks, and asks for the stamps and for the lines of the first zone
//     narrow   reads the stamps, and then the first zone; asks for the lines of the next zone
//     end      reads the other zones
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bloom/window/lanes.hpp"

namespace sepal::bloom {

inline constexpr std::size_t sought_together_max = 64;  // a bit for each
// So few are quicker one by one.
inline constexpr std::size_t few_sought_max = 3;

// The zones whose lines are asked for at once.
enum class Zones : std::uint8_t { first, all };

// The items that are left, in order. In columns, as vectors need them.
struct SoughtItems {
  using Column = std::array<std::uint64_t, sought_together_max>;

  std::size_t count = 0;
  Zones asked = Zones::first;
  alignas(64) Column mixed;
  alignas(64) Column block;
  alignas(64) Column line;   // the first word of the item's line in the next zone
  alignas(64) Column lanes;  // live ones that have all bits of the item so far, a bit for each
  alignas(64) Column place;  // among all items that begin() was given

  // Moves an item to an earlier place in the list, without its lanes.
  void move(std::size_t from, std::size_t to) {
    mixed[to] = mixed[from];
    block[to] = block[from];
    line[to] = line[from];
    place[to] = place[from];
  }
  // Whether so many of `before` items are left that the lines of all zones will be read.
  [[nodiscard]] bool most_are_left(std::size_t before) const { return count * 4 >= before * 3; }
};

struct LaneKernel {
  std::string_view name;
  // The hashes are at most sought_together_max.
  void (*begin)(const LaneBlocks& blocks, std::span<const std::uint64_t> hashes, Zones zones,
                SoughtItems& sought);
  void (*narrow)(const LaneBlocks& blocks, const LiveStamps& live, SoughtItems& sought);
  // The items that one of the lanes `sufficient` has: a bit for each of the hashes.
  std::uint64_t (*end)(const LaneBlocks& blocks, std::uint32_t sufficient, SoughtItems& sought);
};

// Those that this machine can run: the plain one first.
[[nodiscard]] std::span<const LaneKernel> lane_kernels();
// The one in use: that of kernel(), or the plain one where it has none.
[[nodiscard]] const LaneKernel& lane_kernel();

}  // namespace sepal::bloom
