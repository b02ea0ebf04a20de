#include <sepal/cuckoo/native/plan.hpp>

#include "support/catch.hpp"

namespace plan_test {

using namespace sepal;
using namespace sepal::cuckoo;

TEST_CASE("a plan is read as it was written, and none that no command makes") {
  const Options options{
      .capacity = 1000, .expansion = 4, .bucket_size = 255, .iteration_max = 65535, .seed = 9};
  const auto read = [](const Plan& plan) {
    std::array<std::byte, plan_bytes> bytes{};
    encode(plan, bytes);
    return decode_plan(bytes);
  };
  const Plan made = *plan(options, ~std::uint64_t{0});
  const auto again = read(made);
  REQUIRE(again);
  CHECK(*again == made);
  // CF.INFO divides by the size of a bucket.
  const auto damaged = [&](auto change) {
    Plan changed = made;
    change(changed.options);
    const auto outcome = read(changed);
    return !outcome && outcome.error().code == Errc::damaged;
  };
  CHECK(damaged([](Options& changed) { changed.bucket_size = 0; }));
  CHECK(damaged([](Options& changed) { changed.bucket_size = 256; }));
  CHECK(damaged([](Options& changed) { changed.iteration_max = 0; }));
  CHECK(damaged([](Options& changed) { changed.expansion = 32769; }));
  CHECK(damaged([](Options& changed) { changed.capacity = capacity_max + 1; }));
  CHECK(damaged([](Options& changed) { changed.error_rate = 1; }));
}

}  // namespace plan_test
