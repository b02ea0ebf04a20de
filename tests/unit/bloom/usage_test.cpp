#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/usage.hpp>

#include "support/catch.hpp"

namespace usage_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;
using namespace std::chrono_literals;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr SteadyTime start{1000h};

}  // namespace

TEST_CASE("usage sums what all workers did") {
  Usage usage(2);
  CHECK(usage.sums(start).asked == 0);
  CHECK_FALSE(usage.sums(start).last_added);
  CHECK(usage.sums(start).added_per_second == 0);
  usage.slot(0).count_asked(5, 2);
  usage.slot(1).count_asked(7, 7);
  usage.slot(1).count_added(3, start);
  usage.slot(0).count_added(4, start + 1s);
  usage.slot(0).count_added(0, start + 5s);
  const Usage::Sums sums = usage.sums(start + 9s);
  CHECK(sums.asked == 12);
  CHECK(sums.found == 9);
  CHECK(sums.added == 7);
  CHECK(sums.last_added == start + 1s);
}

TEST_CASE("adds a second are those since the first add, for a minute") {
  Usage usage(1);
  usage.slot(0).count_added(100, start);
  CHECK(usage.sums(start).added_per_second == 100);
  CHECK(usage.sums(start + 10s).added_per_second == 10);
  usage.slot(0).count_added(100, start + 10s);
  CHECK(usage.sums(start + 20s).added_per_second == 10);
}

TEST_CASE("adds a second forget what is older than a minute") {
  Usage usage(1);
  for (int second = 0; second < 600; ++second)
    usage.slot(0).count_added(second < 300 ? 1000 : 10, start + std::chrono::seconds(second));
  CHECK(usage.sums(start + 600s).added_per_second > 9);
  CHECK(usage.sums(start + 600s).added_per_second < 11);
  CHECK(usage.sums(start + 900s).added_per_second == 0);
  CHECK(usage.sums(start + 900s).added == 303'000);
}

TEST_CASE("adds a second are right on a machine that has run for years") {
  // A piece keeps 24 bits of its number, and there are 10 seconds in a piece: they are used up now.
  const SteadyTime years = SteadyTime{} + 10s * (1 << 24);
  for (const auto offset : {-1000s, -30s, 0s, 1000s}) {
    Usage usage(1);
    for (int second = 0; second < 200; ++second)
      usage.slot(0).count_added(10, years + offset + std::chrono::seconds(second));
    CHECK(usage.sums(years + offset + 200s).added_per_second > 9);
    CHECK(usage.sums(years + offset + 200s).added_per_second < 11);
    CHECK(usage.sums(years + offset + 300s).added_per_second == 0);
    // More than half of all numbers later.
    CHECK(usage.sums(years + offset + 300s + 10s * (1 << 23)).added_per_second == 0);
  }
}

TEST_CASE("only a filter of a large layer keeps usage, and keeps it when it grows") {
  const auto small = Filter::create({.capacity = 500'000}, plenty);
  REQUIRE(small);
  (*small)->keep_usage(2);
  CHECK((*small)->usage() == nullptr);

  const auto large = Filter::create({.error_rate = 0.25, .capacity = 4'000'000, .expansion = 1}, plenty);
  REQUIRE(large);
  CHECK((*large)->usage() == nullptr);
  (*large)->keep_usage(2);
  Usage* const usage = (*large)->usage();
  REQUIRE(usage != nullptr);
  usage->slot(1).count_asked(1, 1);
  (*large)->keep_usage(2);
  CHECK((*large)->usage() == usage);
  const auto first = (*large)->layer(0).plan();
  const auto next =
      plan_layer({.capacity = first.capacity, .error_rate = 0.25 * layer_rate_share(1)}, plenty.bytes_max);
  REQUIRE(next);
  REQUIRE((*large)->append_layer(*next, plenty));
  CHECK((*large)->usage() == usage);
  CHECK((*large)->usage()->sums(start).asked == 1);
}

}  // namespace usage_test
