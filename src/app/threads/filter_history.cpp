#include "app/threads/filter_history.hpp"

#include <sepal/base/assert.hpp>

namespace sepal::app {
namespace {

// Points at this distance cover the hour.
constexpr std::chrono::seconds interval_max{32};
static_assert(interval_max * FilterHistory::points_max >= FilterHistory::age_max);
static_assert(FilterHistory::points_max >= 2 && FilterHistory::points_max % 2 == 0,
              "half of them is dropped");

}  // namespace

void FilterHistory::record(const Point& point) {
  SEPAL_ASSERT(points_.empty() || point.at >= points_.back().at, "a point is older than the one before it");
  if (!points_.empty() && point.at - points_.back().at < interval_) return;
  std::erase_if(points_, [&](const Point& old) { return point.at - old.at > age_max; });
  if (points_.size() == points_max) {
    if (interval_ < interval_max) {
      for (std::size_t i = 0; 2 * i < points_max; ++i) points_[i] = points_[2 * i];
      points_.resize(points_max / 2);
      interval_ *= 2;
    } else {
      points_.erase(points_.begin());
    }
  }
  points_.push_back(point);
  SEPAL_ASSERT(points_.size() <= points_max && interval_ <= interval_max, "a history has too many points");
}

}  // namespace sepal::app
