#include "bloom/window/plain_lane_kernel.hpp"

namespace sepal::bloom {
namespace {

// Leaves the items that have a lane: lanes_of(at) gives the lanes of one. Every item is moved to the next
// place, and stays only if it has one: there is no branch that cannot be guessed.
template <class LanesOf>
void keep_found(SoughtItems& sought, const LanesOf& lanes_of_item) {
  std::size_t left = 0;
  for (std::size_t at = 0; at < sought.count; ++at) {
    const std::uint32_t lanes = lanes_of_item(at);
    sought.move(at, left);
    sought.lanes[left] = lanes;
    left += lanes != 0 ? 1 : 0;
  }
  sought.count = left;
}

LaneItem item_at(const SoughtItems& sought, std::size_t at) {
  return {sought.mixed[at], sought.block[at]};
}

void begin_plainly(const LaneBlocks& blocks, std::span<const std::uint64_t> hashes, Zones zones,
                   SoughtItems& sought) {
  // A copy: the compiler cannot know that the stores leave the shape alone.
  const LaneBlocks shape = blocks;
  const std::uint32_t zones_asked = zones == Zones::all ? shape.zones : 1;
  sought.count = hashes.size();
  sought.asked = zones;
  for (std::size_t at = 0; at < hashes.size(); ++at) {
    const LaneItem item(shape, hashes[at]);
    fetch_line(item.stamps(shape));
    sought.line[at] = item.line(shape, 0);
    for (std::uint32_t zone = 0; zone < zones_asked; ++zone) fetch_line(shape.words + item.line(shape, zone));
    sought.mixed[at] = item.mixed_hash();
    sought.block[at] = item.block();
    sought.place[at] = at;
  }
}

// Makes a zone the next one, and asks for its lines.
void go_to_zone(const LaneBlocks& blocks, std::uint32_t zone, SoughtItems& sought) {
  const LaneBlocks shape = blocks;
  for (std::size_t at = 0; at < sought.count; ++at) {
    sought.line[at] = item_at(sought, at).line(shape, zone);
    fetch_line(shape.words + sought.line[at]);
  }
}

void narrow_plainly(const LaneBlocks& blocks, const LiveStamps& live, SoughtItems& sought) {
  const std::size_t before = sought.count;
  with_shape(blocks, [&](const auto& shape) {
    keep_found(sought, [&](std::size_t at) {
      const LaneItem item = item_at(sought, at);
      return item.lanes_in(shape, 0, blocks.words + sought.line[at], item.live_lanes(blocks, shape, live));
    });
  });
  if (blocks.zones == 1) return;
  go_to_zone(blocks, 1, sought);
  if (sought.asked == Zones::all || !sought.most_are_left(before)) return;
  sought.asked = Zones::all;
  for (std::uint32_t zone = 2; zone < blocks.zones; ++zone)
    for (std::size_t at = 0; at < sought.count; ++at)
      fetch_line(blocks.words + item_at(sought, at).line(blocks, zone));
}

std::uint64_t end_plainly(const LaneBlocks& blocks, std::uint32_t sufficient, SoughtItems& sought) {
  for (std::uint32_t zone = 1; zone < blocks.zones && sought.count > 0; ++zone) {
    if (zone > 1) go_to_zone(blocks, zone, sought);
    with_shape(blocks, [&](const auto& shape) {
      keep_found(sought, [&](std::size_t at) {
        return item_at(sought, at)
            .lanes_in(shape, zone, blocks.words + sought.line[at],
                      static_cast<std::uint32_t>(sought.lanes[at]));
      });
    });
  }
  std::uint64_t found = 0;
  for (std::size_t at = 0; at < sought.count; ++at)
    found |= std::uint64_t{(sought.lanes[at] & sufficient) != 0 ? 1U : 0U} << sought.place[at];
  return found;
}

}  // namespace

const LaneKernel& plain_lane_kernel() {
  static constexpr LaneKernel kernel{
      .name = "plain", .begin = begin_plainly, .narrow = narrow_plainly, .end = end_plainly};
  return kernel;
}

}  // namespace sepal::bloom
