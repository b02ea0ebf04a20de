#include <sepal/base/line_limit.hpp>

#include "support/catch.hpp"

namespace line_limit_test {

using namespace sepal;

TEST_CASE("in a period, so many lines are written, and the next tells how many were left out") {
  LineLimit lines(20, std::chrono::seconds(1));
  const SteadyTime second{std::chrono::seconds(10)};
  std::uint64_t left_out = 0;
  for (int line = 0; line < 20; ++line) CHECK(lines.takes(second, left_out));
  for (int line = 0; line < 7; ++line)
    CHECK_FALSE(lines.takes(second + std::chrono::milliseconds(999), left_out));
  CHECK(left_out == 0);
  CHECK(lines.takes(second + std::chrono::seconds(1), left_out));
  CHECK(left_out == 7);
  CHECK(lines.takes(second + std::chrono::seconds(1), left_out));
  CHECK(left_out == 0);
}

TEST_CASE("what was left out can be told once its period is over, and is told once") {
  LineLimit lines(1, std::chrono::seconds(10));
  const SteadyTime began{std::chrono::seconds(100)};
  std::uint64_t left_out = 0;
  CHECK(lines.takes(began, left_out));
  CHECK_FALSE(lines.takes(began, left_out));
  CHECK_FALSE(lines.takes(began, left_out));
  CHECK(lines.take_left_out(began + std::chrono::seconds(9)) == 0);
  CHECK(lines.take_left_out(began + std::chrono::seconds(10)) == 2);
  CHECK(lines.take_left_out(SteadyTime::max()) == 0);
  CHECK(lines.takes(began + std::chrono::seconds(10), left_out));
  CHECK(left_out == 0);
}

}  // namespace line_limit_test
