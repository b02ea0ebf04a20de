#include "app/threads/filter_history.hpp"

#include "support/catch.hpp"

namespace filter_history_test {

using namespace sepal;
using namespace sepal::app;
using namespace std::chrono_literals;

namespace {

// Records once a second: the fill of a point is its second.
FilterHistory after(int seconds) {
  FilterHistory history;
  for (int second = 0; second <= seconds; ++second)
    history.record({.at = SteadyTime{} + std::chrono::seconds(second),
                    .fill = static_cast<float>(second),
                    .false_positive_rate = 0});
  return history;
}

}  // namespace

TEST_CASE("a young history has a point every two seconds") {
  const FilterHistory history = after(7);
  REQUIRE(history.points().size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(history.points()[i].fill == static_cast<float>(2 * i));
}

TEST_CASE("a history is bounded, and goes back to its beginning or an hour") {
  for (const int seconds : {239, 240, 242, 1000, 3599, 3600, 3700, 20'000}) {
    const FilterHistory history = after(seconds);
    const auto& points = history.points();
    CAPTURE(seconds);
    CHECK(points.size() <= FilterHistory::points_max);
    CHECK(points.size() >= FilterHistory::points_max / 2);
    const auto covered = points.back().at - points.front().at;
    CHECK(covered <= FilterHistory::age_max);
    CHECK(covered >=
          std::min<std::chrono::seconds>(std::chrono::seconds(seconds), FilterHistory::age_max) - 64s);
    for (std::size_t i = 1; i < points.size(); ++i) CHECK(points[i].at - points[i - 1].at <= 64s);
  }
}

TEST_CASE("a history that was not recorded for an hour begins again") {
  FilterHistory history = after(100);
  history.record({.at = SteadyTime{} + 2h, .fill = 1, .false_positive_rate = 0});
  CHECK(history.points().size() == 1);
}

}  // namespace filter_history_test
