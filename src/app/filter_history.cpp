#include "filter_history.hpp"

namespace sepal::app {
namespace {

// Points at this distance cover the hour.
constexpr std::chrono::seconds interval_max{32};
static_assert(interval_max * FilterHistory::points_max >= FilterHistory::age_max);

}  // namespace

void FilterHistory::record(const Point& point) {
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
}

}  // namespace sepal::app
