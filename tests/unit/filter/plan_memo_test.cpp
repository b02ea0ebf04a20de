#include <sepal/filter/plan_memo.hpp>

#include <cstdint>
#include <limits>

#include "support/catch.hpp"

namespace {

using namespace sepal;
using namespace sepal::filter;

constexpr std::uint64_t unbounded = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("a plan that is remembered is the plan that is made", "[filter]") {
  PlanMemo memo;
  // More than it remembers, so that some are forgotten in between.
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

TEST_CASE("a remembered plan is held to the limit of who asks", "[filter]") {
  PlanMemo memo;
  const LayerRequest request{.capacity = 1000, .error_rate = 0.01};
  const auto plan = memo.plan(request, unbounded);
  REQUIRE(plan);
  CHECK(memo.plan(request, plan->byte_count()));
  const auto refused = memo.plan(request, plan->byte_count() - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::too_large);
}

TEST_CASE("what cannot be planned is refused, and not remembered", "[filter]") {
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
