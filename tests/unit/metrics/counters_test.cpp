#include <sepal/metrics/counters.hpp>

#include "support/catch.hpp"

namespace counters_test {

using sepal::metrics::Counter;
using sepal::metrics::Histogram;
using sepal::metrics::RecentPeak;

TEST_CASE("a counter adds up and can start again") {
  Counter counter;
  CHECK(counter.get() == 0);
  counter.add();
  counter.add(41);
  CHECK(counter.get() == 42);
  counter.reset();
  CHECK(counter.get() == 0);
}

TEST_CASE("a reader never sees a counter run backwards") {
  constexpr std::uint64_t additions = 100'000;
  Counter counter;
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < additions; ++i) counter.add();
  });
  std::uint64_t last = 0;
  bool ascending = true;
  while (last < additions) {
    const std::uint64_t now = counter.get();
    ascending &= now >= last;
    last = now;
  }
  writer.join();
  CHECK(ascending);
  CHECK(counter.get() == additions);
}

TEST_CASE("the buckets cover all values without gaps or overlaps") {
  for (std::size_t bucket = 0; bucket + 1 < Histogram::bucket_count; ++bucket) {
    const std::uint64_t last = Histogram::upper_bound(bucket);
    CHECK(Histogram::bucket_of(last) == bucket);
    CHECK(Histogram::bucket_of(last + 1) == bucket + 1);
  }
  CHECK(Histogram::bucket_of(0) == 0);
  CHECK(Histogram::bucket_of(UINT64_MAX) == Histogram::bucket_count - 1);
}

TEST_CASE("a bucket's bound is at most a quarter above its values") {
  for (std::uint64_t value = 1; value < std::uint64_t{1} << 36; value += 1 + value / 97) {
    const std::uint64_t bound = Histogram::upper_bound(Histogram::bucket_of(value));
    REQUIRE(bound >= value);
    REQUIRE(4 * (bound - value) <= value);
  }
}

TEST_CASE("a histogram counts each value in its bucket") {
  Histogram histogram;
  histogram.add(5);
  histogram.add(1000, 3);
  histogram.add(UINT64_MAX);
  std::uint64_t total = 0;
  for (std::size_t bucket = 0; bucket < Histogram::bucket_count; ++bucket) total += histogram.count(bucket);
  CHECK(total == 5);
  CHECK(histogram.count(5) == 1);
  CHECK(histogram.count(Histogram::bucket_of(1000)) == 3);
  CHECK(histogram.count(Histogram::bucket_count - 1) == 1);
  histogram.reset();
  CHECK(histogram.count(5) == 0);
}

TEST_CASE("a recent peak forgets what is older than its slots") {
  RecentPeak peak;
  CHECK(peak.get() == 0);
  peak.add(9);
  for (std::size_t i = 1; i < RecentPeak::slot_count; ++i) peak.add(3);
  CHECK(peak.get() == 9);
  peak.add(2);
  CHECK(peak.get() == 3);
}

}  // namespace counters_test
