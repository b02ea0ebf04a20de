// How full a filter was, and how often it erred, during the last hour.
//
// It has a bounded number of points. At first there is one every two seconds. When the room is used up, every
// second point is dropped and the interval doubles, until the points cover an hour. Then the oldest go.
#pragma once

#include <sepal/base/clock.hpp>

#include <chrono>
#include <vector>

namespace sepal::app {

// Confined to one thread, or guarded by its owner.
class FilterHistory {
 public:
  static constexpr std::size_t points_max = 120;
  static constexpr std::chrono::seconds age_max{3600};

  struct Point {
    SteadyTime at;
    float fill;
    float false_positive_rate;
  };

  // A point that comes too soon after the last one is left out. `at` does not go back.
  void record(const Point& point);
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }  // oldest first

 private:
  std::vector<Point> points_;
  std::chrono::seconds interval_{2};
};

}  // namespace sepal::app
