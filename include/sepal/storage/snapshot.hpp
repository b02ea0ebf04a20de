// What a save needs to know of the keyspace.
//
// Which keys and filters there are is of one instant: the cut, taken with the gate closed. What a save must
// not read while others change it, the list of a filter's layers and their counts, is taken with the gate
// closed as well, but some filters at a time, so that nobody waits for a million of them: what a filter grew
// or counted since the cut may be in the generation, just as the bits that were set since. Bits are read
// last, outside the gate: they only ever go from 0 to 1. So the generation holds all that was added before
// the cut, and a part of what came after.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sepal::storage {

struct Snapshot {
  struct Layer {
    filter::LayerView view;
    std::uint64_t item_count = 0;
  };

  WallTime taken_at{};
  std::vector<keyspace::CutEntry> entries;
  std::vector<std::uint32_t> layer_counts;  // of each entry
  std::vector<Layer> layers;                // of all entries, one entry's behind the other's, oldest first
};

// Gate closed. The instant of the snapshot; its layers are still to be taken.
[[nodiscard]] Snapshot cut_of(const keyspace::Keyspace& keyspace, WallTime now);

// Gate closed; it may have been open since the last call. Takes the layers of up to `filters_max` more
// filters. True when that was the last.
bool take_layers(Snapshot& snapshot, std::size_t filters_max);

// Gate closed. All at once.
[[nodiscard]] Snapshot snapshot_of(const keyspace::Keyspace& keyspace, WallTime now);

}  // namespace sepal::storage
