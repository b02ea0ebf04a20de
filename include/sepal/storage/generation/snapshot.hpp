// What a save needs to know about the keyspace.
//
// The keys, values, deadlines and mirrors are those of one instant: the cut, taken with the gate closed. A
// save must not read the shape and the counts of a value while workers change them. So each value is frozen
// with the gate closed as well (KindRow::freeze), but some at a time: no client waits for a million of them.
// The generation may hold shapes and counts from after the cut. Bodies are read last, outside the gate, and
// each kind says what makes that right (value/kind_row.hpp).
//
// The journal tells the rest exactly, because each value has the position at which it was frozen.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/keyspace/cut.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sepal::storage {

// A run of a snapshot has so many bytes of records at most, unless it has one value only.
inline constexpr std::uint64_t run_bytes_max = std::uint64_t{256} << 10;

struct Snapshot {
  // Values that stand one behind the other. A save packs a run at once, and several runs at a time.
  struct Run {
    std::size_t first_entry = 0;
    std::size_t first_number = 0;
    std::uint64_t record_bytes = 0;    // of all its values, as records
    std::uint64_t body_bytes = 0;      // of all its values
    std::uint64_t body_bytes_max = 0;  // of one value
  };
  // A value whose file a later save may link, at the instant of its freeze (known_files.hpp).
  struct Known {
    std::size_t entry = 0;
    std::uint64_t identity = 0;
    std::uint64_t changes = 0;
  };
  struct Held {
    std::size_t entry = 0;
    std::unique_ptr<value::Still> still;
  };

  WallTime taken_at{};
  std::uint64_t journal_position = 0;  // at the cut
  std::vector<keyspace::Mirror> mirrors;
  std::vector<keyspace::CutEntry> entries;
  std::vector<std::uint64_t> journal_positions;  // where each entry was frozen
  std::vector<std::uint32_t> number_counts;      // for each entry
  std::vector<std::uint64_t> numbers;            // what freeze() has written, entry after entry
  std::vector<Run> runs;                         // all entries, in their order
  std::vector<Known> known;                      // by entry
  std::vector<Held> held;                        // by entry; few kinds have any
  std::uint64_t item_count = 0;                  // in all values
};

// Takes a snapshot in steps. Confined. Take it to its end without waiting for anything slow in between
// (keyspace/cut.hpp).
class SnapshotTaker {
 public:
  // Gate closed. The instant of the snapshot.
  SnapshotTaker(keyspace::Keyspace& keyspace, WallTime now, std::uint64_t journal_position);
  // Not inside the gate, before the first step: allocates what the steps fill.
  void reserve();
  // Gate closed. Freezes about `filter_count` more values. True when these were the last.
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
