#include <sepal/bloom/filter/measure.hpp>

#include "support/catch.hpp"
#include "support/redisbloom_filter.hpp"

namespace measure_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

FilterMeasure measure_whole(const Filter& filter) {
  const auto layers = filter.layers();
  return measure(layers, measured_bytes_max);
}

void set_all_bits(Filter& filter) {
  const std::vector<std::byte> ones(filter.layer(0).plan().byte_count(), std::byte{0xff});
  filter.fill_bits(0, 0, ones);
}

}  // namespace

TEST_CASE("an empty filter has no bit set, no item, and never errs") {
  const auto filter = Filter::create({.capacity = 1000}, plenty);
  REQUIRE(filter);
  const FilterMeasure measured = measure_whole(**filter);
  CHECK(measured.bits == (*filter)->layer(0).plan().bit_count());
  CHECK(measured.bits_set == 0);
  CHECK(measured.fill == 0);
  CHECK(measured.item_estimate == 0);
  CHECK(measured.false_positive_rate == 0);
  CHECK(measured.whole);
  REQUIRE(measured.layers.size() == 1);
}

TEST_CASE("a filter whose bits are all set says maybe to all items") {
  const auto filter = Filter::create({.capacity = 1000}, plenty);
  REQUIRE(filter);
  set_all_bits(**filter);
  const FilterMeasure measured = measure_whole(**filter);
  CHECK(measured.bits_set == measured.bits);
  CHECK(measured.fill == 1);
  CHECK(measured.false_positive_rate == 1);
  CHECK(measured.item_estimate > 1000);
  CHECK(measured.item_estimate < 1e9);
}

TEST_CASE("a RedisBloom layer whose bits are all set says maybe to all items") {
  const auto filter = test::redisbloom_filter({.error_rate = 0.01, .capacity = 1000});
  set_all_bits(*filter);
  const FilterMeasure measured = measure_whole(*filter);
  CHECK(measured.fill == 1);
  CHECK(measured.false_positive_rate == 1);
  CHECK(measured.item_estimate > 1000);
  CHECK(measured.item_estimate < 1e9);
}

// A layer of double hashing that is so small is not read alone: items are tested.
TEST_CASE("a short look at a small RedisBloom layer is as right as it has to be") {
  const auto filter = test::redisbloom_filter({.error_rate = 0.01, .capacity = 1000});
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i);
    const std::string_view item = text;
    bool added = false;
    REQUIRE(filter->try_add({&item, 1}, {&added, 1}, nullptr));
  }
  const double rate = measure_whole(*filter).false_positive_rate;
  constexpr std::uint64_t short_bytes = std::uint64_t{16} << 10;
  CHECK(measure(filter->layers(), short_bytes).false_positive_rate == Approx(rate).epsilon(0.1));
}

TEST_CASE("one item is measured as one item") {
  const auto filter = Filter::create({.capacity = 1000, .seed = 5}, plenty);
  REQUIRE(filter);
  (void)(*filter)->add_alone("alone", plenty);
  const FilterMeasure measured = measure_whole(**filter);
  CHECK(measured.item_estimate > 0.8);
  CHECK(measured.item_estimate < 1.2);
  CHECK(measured.layers[0].bits_set == measured.bits_set);
}

TEST_CASE("a sample reads no more than it may, and says so") {
  const auto filter = Filter::create({.capacity = 1'000'000}, plenty);
  REQUIRE(filter);
  const auto layers = (*filter)->layers();
  CHECK(measure(layers, layers[0].plan().byte_count()).whole);
  CHECK_FALSE(measure(layers, layers[0].plan().byte_count() - 1).whole);
  CHECK_FALSE(measure(layers, 0).whole);
}

}  // namespace measure_test
