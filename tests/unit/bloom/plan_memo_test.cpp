#include <sepal/bloom/plan/plan_memo.hpp>

#include "support/catch.hpp"

namespace plan_memo_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("a remembered plan equals a new plan") {
  PlanMemo memo;
  // More plans than it remembers, so that it forgets some in between.
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t capacity = 1; capacity < 100'000; capacity *= 2) {
      const LayerRequest request{.capacity = capacity, .error_rate = 0.01};
      CAPTURE(round, capacity);
      const auto expected = plan_layer(request, unbounded);
      REQUIRE(expected);
      for (int time = 0; time < 2; ++time) {
        const auto plan = memo.plan(request, unbounded);
        REQUIRE(plan);
        CHECK(*plan == *expected);
      }
    }
  }
}

TEST_CASE("a remembered plan is checked against the limit of each caller") {
  PlanMemo memo;
  const LayerRequest request{.capacity = 1000, .error_rate = 0.01};
  const auto plan = memo.plan(request, unbounded);
  REQUIRE(plan);
  CHECK(memo.plan(request, plan->byte_count()));
  const auto refused = memo.plan(request, plan->byte_count() - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::too_large);
}

// The second request for a plan comes with the gate closed, so it must be quick.
TEST_CASE("a filter that is too large is planned only once") {
  // A plan that takes especially long.
  const LayerRequest request{.capacity = 9741, .error_rate = 0.25};
  // The processor's time of this thread, so that other work on the machine does not count.
  const auto now = [] {
    timespec time{};
    REQUIRE(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto time_of = [&](const auto& plan) {
    constexpr int times = 20;
    const auto start = now();
    for (int time = 0; time < times; ++time) (void)plan();
    return now() - start;
  };
  const auto anew = time_of([&] { return plan_layer(request, unbounded); });
  const std::uint64_t just_too_few = plan_layer(request, unbounded)->byte_count() - 1;
  PlanMemo memo;
  REQUIRE(memo.plan(request, just_too_few).error().code == Errc::too_large);
  CHECK(time_of([&] { return memo.plan(request, just_too_few); }) < anew / 4);
  CHECK(memo.plan(request, unbounded));
}

TEST_CASE("a filter that cannot be planned is refused, and not remembered") {
  PlanMemo memo;
  for (int time = 0; time < 2; ++time) {
    for (const double error_rate : {0.0, 0.01}) {
      const auto refused = memo.plan({.capacity = 0, .error_rate = error_rate}, unbounded);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().code == Errc::out_of_range);
    }
    CHECK(memo.plan({.capacity = 1, .error_rate = 1.5}, unbounded).error().code == Errc::out_of_range);
  }
}

}  // namespace

}  // namespace plan_memo_test
