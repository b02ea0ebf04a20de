// What measure() says about a filter is held against what the filter answers for absent items, and against
// the items that were added.
#include <sepal/bloom/filter/measure.hpp>

#include "support/catch.hpp"
#include "support/redisbloom_filter.hpp"

namespace measure_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

// Sixteen bytes each, all different.
struct Item {
  std::uint64_t kind, index;
  [[nodiscard]] std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
constexpr std::uint64_t added_kind = 1, absent_kind = 2;

// Adds different items until so many were new. Returns how many it gave to the filter: some are taken for
// known ones by mistake.
std::uint64_t add(Filter& filter, std::uint64_t item_count) {
  std::uint64_t given = 0;
  for (std::uint64_t added = 0; added < item_count; ++given) {
    const auto outcome = filter.add_alone(Item{added_kind, given}.bytes(), plenty);
    if (outcome.refusal != Filter::Refusal::none) FAIL("an item finds no room");
    added += outcome.added ? 1 : 0;
  }
  return given;
}

double answered_rate(const Filter& filter, std::uint64_t absent_count) {
  constexpr std::uint64_t batch = 64;
  std::vector<Item> items(batch);
  std::vector<std::string_view> words;
  for (const Item& item : items) words.push_back(item.bytes());
  bool present[batch];
  std::uint64_t maybes = 0;
  for (std::uint64_t first = 0; first < absent_count; first += batch) {
    for (std::uint64_t i = 0; i < batch; ++i) items[i] = {absent_kind, first + i};
    filter.contains(words, present);
    maybes += static_cast<std::uint64_t>(std::ranges::count(present, true));
  }
  return static_cast<double>(maybes) / static_cast<double>(absent_count);
}

FilterMeasure measure_whole(const Filter& filter) {
  const auto layers = filter.layers();
  return measure(layers, measured_bytes_max);
}

// The measured rate may differ by 10%, and by four standard errors of the measurement. An item that an older
// layer took for a known one left no bit in a younger layer, so the estimate may be as low as the count.
void check(const Filter& filter, std::uint64_t given, std::uint64_t absent_count) {
  const FilterMeasure measured = measure_whole(filter);
  const double answered = answered_rate(filter, absent_count);
  const double error =
      std::sqrt(std::max(measured.false_positive_rate, 1e-12) / static_cast<double>(absent_count));
  INFO("measured " << measured.false_positive_rate << ", answered " << answered << ", layers "
                   << measured.layers.size() << ", items " << filter.item_count() << ", estimated "
                   << measured.item_estimate);
  CHECK(std::abs(measured.false_positive_rate - answered) <= 0.1 * answered + 4 * error);
  const bool one_layer = measured.layers.size() == 1;
  CHECK(measured.item_estimate >= 0.99 * static_cast<double>(one_layer ? given : filter.item_count()));
  CHECK(measured.item_estimate <= 1.01 * static_cast<double>(given));
}

const std::vector<std::uint64_t> shares = {10, 50, 100, 200};  // percent of the capacity

// SEPAL_ABSENT_ITEMS=10000000 measures thoroughly.
std::uint64_t absent_items() {
  const char* const text = std::getenv("SEPAL_ABSENT_ITEMS");
  return text == nullptr ? 400'000 : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("the measured rate and items of a filter are those that it shows") {
  const double error_rate = GENERATE(0.1, 0.01, 0.001);
  const std::uint64_t capacity = GENERATE(20'000, 300'000);
  const std::uint64_t share = GENERATE(from_range(shares));
  const auto filter = Filter::create({.error_rate = error_rate, .capacity = capacity, .seed = 7}, plenty);
  REQUIRE(filter);
  const std::uint64_t given = add(**filter, capacity * share / 100);
  check(**filter, given, absent_items());
}

TEST_CASE("the measured rate of many layers is that of all of them") {
  const std::uint32_t expansion = GENERATE(1, 2);
  const std::uint64_t capacity = 2'000;
  const auto filter =
      Filter::create({.error_rate = 0.05, .capacity = capacity, .expansion = expansion, .seed = 11}, plenty);
  REQUIRE(filter);
  const std::uint64_t given = add(**filter, capacity * 9 + 1'500);
  CHECK((*filter)->layer_count() >= 4);
  check(**filter, given, absent_items());
}

TEST_CASE("the measured rate of RedisBloom's layers is theirs, small ones too", "[unsanitized]") {
  const double error_rate = GENERATE(0.05, 0.01, 0.001);
  const std::uint64_t capacity = GENERATE(10'000, 40'000, 300'000);
  const std::uint64_t share = GENERATE(from_range(shares));
  const auto filter =
      sepal::test::redisbloom_filter({.error_rate = error_rate, .capacity = capacity, .expansion = 2});
  const std::uint64_t given = add(*filter, capacity * share / 100);
  check(*filter, given, absent_items());
}

// The rate of these is well above fill^k, because the positions of items overlap.
TEST_CASE("the measured rate of RedisBloom's smallest layers is theirs", "[unsanitized]") {
  const std::uint64_t capacity = GENERATE(20, 100, 500, 2'000);
  const auto filter =
      sepal::test::redisbloom_filter({.error_rate = 0.001, .capacity = capacity, .expansion = 0});
  add(*filter, capacity);
  const FilterMeasure measured = measure_whole(*filter);
  const std::uint64_t absent_count = 10 * absent_items();
  const double answered = answered_rate(*filter, absent_count);
  const double error = std::sqrt(answered / static_cast<double>(absent_count));
  INFO("measured " << measured.false_positive_rate << ", answered " << answered);
  CHECK(std::abs(measured.false_positive_rate - answered) <= 0.1 * answered + 4 * error);
}

TEST_CASE("a sample of a large filter is as right as the whole") {
  const auto filter = Filter::create({.error_rate = 0.01, .capacity = 3'000'000, .seed = 3}, plenty);
  REQUIRE(filter);
  add(**filter, 1'500'000);
  const auto layers = (*filter)->layers();
  const FilterMeasure whole = measure(layers, std::uint64_t{1} << 40);
  const FilterMeasure part = measure(layers, std::uint64_t{1} << 20);
  CHECK(whole.whole);
  CHECK_FALSE(part.whole);
  const auto bits_set = static_cast<double>(whole.bits_set);
  CHECK(std::abs(static_cast<double>(part.bits_set) - bits_set) <= 0.01 * bits_set);
  CHECK(std::abs(part.item_estimate - whole.item_estimate) <= 0.01 * whole.item_estimate);
  CHECK(std::abs(part.false_positive_rate - whole.false_positive_rate) <= 0.1 * whole.false_positive_rate);
}

}  // namespace measure_property
