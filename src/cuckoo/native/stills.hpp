// Copies of a filter that are under way while it changes.
//
// A copy takes cell after cell: it locks a cell, and copies its bytes with the number of its last change. So
// each cell of the copy is exact at its own number, and a replay applies what is above (decisions/0052). A
// cell that is about to get other lines, or one more or one fewer count beside them, is kept for the copies
// that have not had it yet: its record there has the length that the copy has promised.
#pragma once

#include <sepal/base/mutex.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sepal::cuckoo {

class Cell;

// A cell in an image: a head, its lines, and its extras.
inline constexpr std::size_t cell_head_bytes = 64;
[[nodiscard]] std::size_t cell_record_bytes(std::size_t bytes_of_lines, std::size_t extra_count);

// One copy. Locks are taken in this order: that of a cell, then Stills::mutex_.
class StillCells {
 public:
  virtual void keep(const Cell& cell) = 0;

 protected:
  ~StillCells() = default;
};

// The copies of a filter. Synchronised.
class Stills {
 public:
  // With the cell locked, before its record would get another length.
  void keep(const Cell& cell) {
    if (count_.load(std::memory_order_acquire) != 0) keep_for_all(cell);
  }
  void add(StillCells& copy);
  void remove(StillCells& copy);
  [[nodiscard]] Mutex& mutex() { return mutex_; }

 private:
  void keep_for_all(const Cell& cell);

  std::atomic<std::uint32_t> count_{0};
  Mutex mutex_;
  std::vector<StillCells*> copies_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::cuckoo
