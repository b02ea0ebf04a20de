// What a save needs to know about the keyspace.
//
// The keys, filters, deadlines and mirrors are those of one instant: the cut, taken with the gate closed. A
// save must not read the list of a filter's layers and their counts while workers change them. So these are
// taken with the gate closed as well, but some filters at a time: no client waits for a million of them. The
// generation may also hold layers, counts and bits from after the cut. Bits are read last, outside the gate:
// they only ever go from 0 to 1. So the generation holds all that was added before the cut, and a part of
// what came after.
//
// A filter's layers and counts are those at its journal position. The replay skips its records before that
// position, and applies the rest.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/keyspace/cut.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sepal::storage {

struct Snapshot {
  struct Layer {
    bloom::LayerView view;
    std::uint64_t item_count = 0;
  };

  WallTime taken_at{};
  std::uint64_t journal_position = 0;  // at the cut
  std::vector<keyspace::Mirror> mirrors;
  std::vector<keyspace::CutEntry> entries;
  std::vector<std::uint64_t> journal_positions;  // where each entry's layers were taken
  std::vector<std::uint32_t> layer_counts;       // for each entry
  std::vector<Layer> layers;                     // all entries' layers, entry after entry, oldest first

  // The highest journal position of all: the generation needs the journal from the cut to here.
  [[nodiscard]] std::uint64_t taken_until() const;
};

// Takes a snapshot in steps. Confined. Take it to its end without waiting for anything slow in between
// (keyspace/cut.hpp).
class SnapshotTaker {
 public:
  // Gate closed. The instant of the snapshot.
  SnapshotTaker(keyspace::Keyspace& keyspace, WallTime now, std::uint64_t journal_position);
  // Not inside the gate, before the first step: allocates what the steps fill.
  void reserve();
  // Gate closed. Takes about `filter_count` more filters. True when these were the last.
  bool step(std::size_t filter_count, std::uint64_t journal_position);
  // After the last step. The gate must be open, because this may free a flushed database.
  [[nodiscard]] Snapshot finish();

 private:
  Snapshot snapshot_;
  std::unique_ptr<keyspace::Cut> cut_;
};

// Gate closed. Takes all at once.
[[nodiscard]] Snapshot snapshot_of(const keyspace::Keyspace& keyspace, WallTime now,
                                   std::uint64_t journal_position = 0);

}  // namespace sepal::storage
