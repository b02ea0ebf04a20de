#include "tools/shell/progress.hpp"

#include "support/catch.hpp"

namespace progress_test {

using namespace sepal::tools;

TEST_CASE("progress shows the share, the rate and the time left") {
  const ProgressState half{
      .phase = "adding", .done = 50, .total = 100, .item_count = 20'000'000, .seconds = 61};
  CHECK(progress_text(half, true) == "adding    [############............]  50%  327.9 k items/s  1:01 left");
  CHECK(progress_text(half, false) == "adding      50%  327.9 k items/s  1:01 left");
}

TEST_CASE("progress towards an unknown end shows the amount so far") {
  const ProgressState state{
      .phase = "reading", .done = 50, .total = 0, .item_count = 3'000'000, .seconds = 2};
  CHECK(progress_text(state, true) == "reading   3.0 M items  1.5 M items/s  0:02");
}

TEST_CASE("progress that has just begun shows no estimate") {
  const ProgressState state{.phase = "adding", .done = 1, .total = 100, .item_count = 5, .seconds = 0.001};
  CHECK(progress_text(state, false) == "adding       1%");
}

}  // namespace progress_test
