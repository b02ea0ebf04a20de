#include <sepal/command/users/login_delay.hpp>

#include "support/catch.hpp"

namespace sepal::command::login_delay_test {
TEST_CASE("failed logins are answered at a rate, and at once while they are few") {
  LoginDelay delay;
  const SteadyTime start{std::chrono::hours(1)};
  for (int i = 0; i < failed_logins_at_once; ++i) CHECK(delay.note(start) == start);
  for (int i = 1; i <= 50; ++i) CHECK(delay.note(start) == start + i * failed_login_interval);
  // Later ones wait for those before.
  CHECK(delay.note(start + 10 * failed_login_interval) == start + 51 * failed_login_interval);
  // After a quiet time, a few are answered at once again.
  const SteadyTime later = start + std::chrono::hours(1);
  for (int i = 0; i < failed_logins_at_once; ++i) CHECK(delay.note(later) == later);
  CHECK(delay.note(later) == later + failed_login_interval);
}

TEST_CASE("no failed login waits longer than the most") {
  LoginDelay delay;
  const SteadyTime start{std::chrono::hours(1)};
  SteadyTime due;
  for (int i = 0; i < 100'000; ++i) due = delay.note(start);
  CHECK(due <= start + failed_login_wait_max + failed_login_interval);
  CHECK(due >= start + failed_login_wait_max - failed_login_interval);
}

}  // namespace sepal::command::login_delay_test
