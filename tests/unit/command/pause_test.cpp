#include <sepal/command/run/pause.hpp>

#include "support/catch.hpp"

namespace sepal::command::pause_test {
using std::chrono::milliseconds;

TEST_CASE("of two pauses the later end counts, and the stricter kind while it runs") {
  Pause pause;
  const SteadyTime now{std::chrono::hours(1)};
  pause.begin(true, now, now + milliseconds(100));
  pause.begin(false, now, now + milliseconds(50));
  CHECK(pause.until() == now + milliseconds(100));
  CHECK(pause.of_all());
  pause.begin(false, now + milliseconds(100), now + milliseconds(200));
  CHECK(pause.until() == now + milliseconds(200));
  CHECK_FALSE(pause.of_all());
  pause.end();
  CHECK_FALSE(pause.runs(now));
}

}  // namespace sepal::command::pause_test
