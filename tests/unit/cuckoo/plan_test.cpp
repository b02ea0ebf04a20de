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

TEST_CASE("the lowest rate can be planned, in all kinds of filters, and hardly any below it") {
  for (const std::uint64_t capacity : {std::uint64_t{1}, std::uint64_t{1000}, capacity_max})
    for (const std::uint32_t expansion : {0u, 1u})
      for (const bool given : {true, false}) {
        Options options{.capacity = capacity,
                        .error_rate = error_rate_min,
                        .expansion = expansion,
                        .capacity_given = given};
        CHECK(plan(options, ~std::uint64_t{0}));
        options.error_rate = 0.9 * error_rate_min;
        CHECK_FALSE(plan(options, ~std::uint64_t{0}));
      }
}

TEST_CASE("a layer behind the first grows") {
  Plan changed = *plan({.capacity = 1000}, ~std::uint64_t{0});
  REQUIRE(changed.layer_count > 1);
  changed.layers[1].remainder_bits_first = changed.layers[1].remainder_bits_min;
  changed.layers[1].identity_bits = changed.layers[1].remainder_bits_min;
  for (auto& layer : changed.layers)
    layer.identity_bits = std::max(layer.identity_bits, layer.remainder_bits_min);
  std::array<std::byte, plan_bytes> bytes{};
  encode(changed, bytes);
  const auto outcome = decode_plan(bytes);
  REQUIRE_FALSE(outcome);
  CHECK(outcome.error().code == Errc::damaged);
}

TEST_CASE("a plan whose numbers wrap is damaged") {
  const auto is_damaged = [](std::uint32_t root_quotients, const LayerPlan& layer) {
    Plan changed = *plan({.capacity = 1000}, ~std::uint64_t{0});
    changed.root_quotients = root_quotients;
    changed.layer_count = 1;
    changed.layers = {layer};
    std::array<std::byte, plan_bytes> bytes{};
    encode(changed, bytes);
    const auto outcome = decode_plan(bytes);
    return !outcome && outcome.error().code == Errc::damaged;
  };
  // More parts of a root than a word has bits.
  CHECK(is_damaged(64, {.identity_bits = 1, .remainder_bits_min = 1, .remainder_bits_first = 40}));
  // Rounded up to the next part, this number has more than 32 bits.
  CHECK(is_damaged(~std::uint32_t{0},
                   {.identity_bits = 10, .remainder_bits_min = 8, .remainder_bits_first = 14}));
}

}  // namespace plan_test
