// What workers do with one big filter: look-ups, hits and adds since the start, and adds over the last
// minute.
//
// Each worker has a slot of its own on cache lines that no other worker writes, so counting costs a plain
// add. A reader sums over the slots; the sum is approximate while workers count.
//
// Adds are also counted by the time: in pieces of 10 seconds, of which a slot keeps the latest eight. A piece
// says in its upper bits which 10 seconds it counts, so a worker that meets an old one begins it anew, and no
// thread has to clear anything.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/clock.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sepal::bloom {

// One worker writes, any thread reads.
class alignas(64) UsageSlot {
 public:
  // `found` of the `asked` items were present.
  void count_asked(std::uint64_t asked, std::uint64_t found) {
    add(asked_, asked);
    add(found_, found);
  }
  // So many items were added and were new. `now` never goes back.
  void count_added(std::uint64_t items, SteadyTime now);

 private:
  friend class Usage;
  using Cell = std::atomic<std::uint64_t>;
  static constexpr std::size_t piece_count = 8;

  static void add(Cell& cell, std::uint64_t amount) {
    cell.store(cell.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  Cell asked_{0};
  Cell found_{0};
  Cell items_added_{0};
  Cell first_added_{0};  // nanoseconds of the steady clock; 0: nothing was added yet
  Cell last_added_{0};
  std::array<Cell, piece_count> pieces_{};
};

// Synchronised, as UsageSlot says.
class Usage {
 public:
  // A filter whose newest layer has at least this many bytes of bits has counters of its own.
  static constexpr std::uint64_t layer_bytes_min = std::uint64_t{1} << 20;

  explicit Usage(std::size_t worker_count) : slots_(worker_count) {}

  [[nodiscard]] UsageSlot& slot(std::size_t worker) {
    SEPAL_ASSERT(worker < slots_.size(), "a worker has no slot in the usage of a filter");
    return slots_[worker];
  }

  struct Sums {
    std::uint64_t asked = 0;      // items that were looked up
    std::uint64_t found = 0;      // of these, the items that were present
    std::uint64_t added = 0;      // items that were new
    double added_per_second = 0;  // over the last minute, or since the first add if that is less
    std::optional<SteadyTime> last_added;
  };
  [[nodiscard]] Sums sums(SteadyTime now) const;

 private:
  std::vector<UsageSlot> slots_;
};

}  // namespace sepal::bloom
