// Moves the big layers that requests have filled from small pages into huge ones, a few at a time.
//
// A layer waits until all of it is in use, and is asked less and less often: a filter that was reserved and
// is never filled stays here and costs next to nothing. Then its pieces are moved one after the other, with
// pauses that leave the address space to others.
#pragma once

#include <sepal/filter/filter.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sepal::app {

// Confined.
class PageSettling {
 public:
  void add(filter::FilterPtr filter, filter::LayerView layer);
  // Filters may have been dropped that only this one still holds.
  void forget_dropped();

  [[nodiscard]] bool empty() const { return layers_.empty(); }
  // When there is something to do again, unless it is empty.
  [[nodiscard]] std::chrono::steady_clock::time_point due() const { return due_; }
  // Does a little, if it is time.
  void step_if_due();

 private:
  struct Unsettled {
    filter::FilterPtr filter;
    filter::LayerView layer;
    std::uint64_t in_use = 0;  // pieces from the first on
    std::uint64_t moved = 0;   // as well
  };

  // Returns after which pause to call it again.
  std::chrono::milliseconds step();
  bool move_a_piece();
  static bool look_at(Unsettled& layer);

  std::vector<Unsettled> layers_;
  std::chrono::milliseconds idle_pause_{};
  std::chrono::steady_clock::time_point due_;
};

}  // namespace sepal::app
