#include "storage/generation/save_watch.hpp"

#include "support/catch.hpp"

namespace sepal::storage {
namespace save_watch_test {

using std::chrono::milliseconds;

TEST_CASE("a save waits as long as its bandwidth asks") {
  const SteadyTime start{};
  SaveWatch watch(start);
  CHECK(watch.pause({.bytes_done = 1000, .bytes_total = 4000}, 1000, start) == milliseconds(1000));
  CHECK(watch.pause({.bytes_done = 1500, .bytes_total = 4000}, 1000, start) == milliseconds(1500));
}

TEST_CASE("a save that is written a second time waits for what it writes then") {
  const SteadyTime start{};
  SaveWatch watch(start);
  CHECK(watch.pause({.bytes_done = 1000, .bytes_total = 4000}, 1000, start) == milliseconds(1000));
  const SteadyTime later = start + milliseconds(1000);
  CHECK(watch.pause({.bytes_done = 0, .bytes_total = 4000}, 1000, later) == milliseconds(0));
  CHECK(watch.pause({.bytes_done = 500, .bytes_total = 4000}, 1000, later) == milliseconds(500));
}

}  // namespace save_watch_test
}  // namespace sepal::storage
