#include <sepal/bloom/plan/layer_plan.hpp>

#include "support/catch.hpp"

namespace layer_plan_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr std::uint64_t plenty = std::uint64_t{1} << 60;
constexpr double rates[] = {0.25, 0.1, 0.01, 0.001, 1e-4, 1e-6};

// Whether the difference is within a share of the second value.
bool near(double value, double expected, double share) {
  return std::abs(value - expected) <= share * expected;
}

LayerPlan planned(std::uint64_t capacity, double error_rate) {
  const auto plan = plan_layer({.capacity = capacity, .error_rate = error_rate}, plenty);
  REQUIRE(plan);
  return *plan;
}

double bits_per_item(const LayerPlan& plan) {
  return static_cast<double>(plan.bit_count()) / static_cast<double>(plan.capacity);
}

double over_textbook(const LayerPlan& plan) {
  return bits_per_item(plan) / textbook_bits_per_item(plan.error_rate);
}

// E[(X/B)^k] from the exact distribution of X, one probe after the other.
double exact_rate_of_one_block(std::uint32_t bits, std::uint32_t probe_count, std::uint32_t item_count) {
  std::vector<double> probability(bits + 1, 0);
  probability[0] = 1;
  for (std::uint32_t probe = 0; probe < probe_count * item_count; ++probe) {
    for (std::uint32_t set = std::min(bits, probe + 1); set > 0; --set)
      probability[set] = (probability[set] * set + probability[set - 1] * (bits - set + 1)) / bits;
    probability[0] = 0;
  }
  double rate = 0;
  for (std::uint32_t set = 0; set <= bits; ++set)
    rate += probability[set] * std::pow(1.0 * set / bits, probe_count);
  return rate;
}

TEST_CASE("the plan of a large layer is the one computed in the design") {
  struct Row {
    double rate;
    std::uint32_t block_bits;
    std::uint32_t probe_count;
    double bits_per_item;
  };
  constexpr Row rows[] = {{0.1, 512, 3, 4.84},
                          {0.01, 512, 6, 9.90},
                          {0.001, 1024, 10, 14.95},
                          {1e-4, 2048, 13, 19.87},
                          {1e-6, 4096, 19, 30.00}};
  for (const Row& row : rows) {
    CAPTURE(row.rate);
    const LayerPlan plan = planned(100'000'000, row.rate);
    CHECK(plan.block_bits == row.block_bits);
    CHECK(plan.probe_count == row.probe_count);
    CHECK(near(bits_per_item(plan), row.bits_per_item, 0.003));
  }
}

TEST_CASE("a hundred million items at one percent take at most 9.93 bits each") {
  CHECK(bits_per_item(planned(100'000'000, 0.01)) <= 9.93);
}

TEST_CASE("a layer of ten thousand items or more stays within 5% of the textbook") {
  for (const double rate : rates) {
    double worst = 0;
    for (double capacity = 10'000; capacity < 1e9; capacity = std::floor(capacity * 1.037) + 1)
      worst = std::max(worst, over_textbook(planned(static_cast<std::uint64_t>(capacity), rate)));
    CAPTURE(rate);
    CHECK(worst <= 1.05);
    CHECK(over_textbook(planned(10'000, rate)) <= 1.05);
  }
}

// The bytes that the reference takes for a layer, and how many more the plan takes.
std::int64_t bytes_over_reference(std::uint64_t capacity, double reference_rate, double error_rate) {
  constexpr std::uint64_t small_bits_max = 8 * 4096;
  const double bits = std::floor(static_cast<double>(capacity) * textbook_bits_per_item(reference_rate));
  const std::uint64_t reference_bits = (static_cast<std::uint64_t>(std::max(bits, 1.0)) + 63) / 64 * 64;
  if (reference_bits > small_bits_max) return 0;
  return (static_cast<std::int64_t>(planned(capacity, error_rate).bit_count()) -
          static_cast<std::int64_t>(reference_bits)) /
         8;
}

TEST_CASE("a small layer takes at most 64 bytes more than the reference's") {
  std::int64_t worst = 0;
  for (const double rate : rates) {
    for (std::uint64_t capacity = 1; capacity <= 12'000; capacity += capacity < 300 ? 1 : 13) {
      worst = std::max(worst, bytes_over_reference(capacity, rate, rate));
      worst = std::max(worst, bytes_over_reference(capacity, rate / 2, rate * layer_rate_share(0)));
    }
  }
  CHECK(worst <= 64);
}

TEST_CASE("every plan expects at most the rate that was asked for") {
  for (const double rate : {0.25, 0.2, 0.03, 0.01, 1e-3, 1e-5, 1e-6, 1e-9, 1e-12, error_rate_min}) {
    for (const std::uint64_t capacity : {1, 2, 3, 10, 33, 100, 500, 1000, 3000, 9000, 50'000, 3'000'000}) {
      CAPTURE(rate, capacity);
      const LayerPlan plan = planned(capacity, rate);
      CHECK(plan.capacity == capacity);
      CHECK(plan.error_rate == rate);
      CHECK(expected_error_rate(plan, capacity) <= rate);
      CHECK(plan.probe_count >= 1);
      CHECK(plan.probe_count <= probe_count_max);
      CHECK(plan.block_bits % 64 == 0);
      CHECK((plan.block_count == 1 || plan.block_bits <= block_bits_max));
    }
  }
}

TEST_CASE("the expected rate of one block is that of the exact distribution of its bits") {
  struct Block {
    std::uint32_t bits;
    std::uint32_t probe_count;
    std::uint32_t item_count;
  };
  constexpr Block blocks[] = {{64, 1, 40},     {64, 2, 20},     {64, 3, 15},    {128, 4, 22},
                              {512, 2, 177},   {512, 3, 106},   {512, 6, 52},   {512, 6, 30},
                              {512, 6, 80},    {512, 9, 33},    {1024, 7, 90},  {1024, 10, 70},
                              {2048, 13, 100}, {4096, 19, 136}, {4096, 20, 200}};
  for (const auto& [bits, probe_count, item_count] : blocks) {
    CAPTURE(bits, probe_count, item_count);
    const LayerPlan plan{.capacity = item_count,
                         .error_rate = 0.1,
                         .block_count = 1,
                         .block_bits = bits,
                         .probe_count = probe_count};
    // Well within the planner's margin for this difference.
    CHECK(near(expected_error_rate(plan, item_count), exact_rate_of_one_block(bits, probe_count, item_count),
               5e-4));
  }
}

TEST_CASE("the expected rate of several blocks is the binomial mixture of theirs") {
  constexpr std::uint32_t item_count = 150, block_count = 3, probe_count = 6;
  double mixture = 0;
  double probability = std::pow(1 - 1.0 / block_count, item_count);
  for (std::uint32_t i = 0; i <= item_count; ++i) {
    if (probability > 1e-9) mixture += probability * exact_rate_of_one_block(512, probe_count, i);
    probability *= static_cast<double>(item_count - i) / (i + 1) / (block_count - 1);
  }
  const LayerPlan plan{.capacity = item_count,
                       .error_rate = 0.1,
                       .block_count = block_count,
                       .block_bits = 512,
                       .probe_count = probe_count};
  CHECK(near(expected_error_rate(plan, item_count), mixture, 5e-4));
}

TEST_CASE("an empty layer has rate 0, and an overfull layer a rising rate") {
  const LayerPlan plan = planned(1'000'000, 0.01);
  CHECK(expected_error_rate(plan, 0) == 0);
  double last = 0;
  for (const std::uint64_t items : {1u << 10, 1u << 16, 1u << 20, 1u << 21, 1u << 22, 1u << 26}) {
    const double rate = expected_error_rate(plan, items);
    CHECK(rate > last);
    CHECK(rate <= 1);
    last = rate;
  }
  CHECK(near(expected_error_rate(plan, std::numeric_limits<std::uint64_t>::max()), 1, 1e-6));
}

TEST_CASE("values at their limit are accepted, and beyond it refused") {
  const auto error_of = [](std::uint64_t capacity, double rate) {
    const auto plan = plan_layer({.capacity = capacity, .error_rate = rate}, plenty);
    return plan ? std::optional<Errc>() : plan.error().code;
  };
  CHECK(error_of(0, 0.01) == Errc::out_of_range);
  CHECK(error_of(1, 0.01) == std::nullopt);
  CHECK(error_of(1, 0) == Errc::out_of_range);
  CHECK(error_of(1, -0.5) == Errc::out_of_range);
  CHECK(error_of(1, 1) == Errc::out_of_range);
  CHECK(error_of(1, std::nan("")) == Errc::out_of_range);
  CHECK(error_of(1, std::numeric_limits<double>::infinity()) == Errc::out_of_range);
  CHECK(error_of(1, std::nextafter(1.0, 0.0)) == std::nullopt);
  CHECK(error_of(1, std::numeric_limits<double>::denorm_min()) == std::nullopt);
}

TEST_CASE("a rate beyond a bound is planned as the bound") {
  CHECK(planned(1000, 0.9) == planned(1000, error_rate_max));
  CHECK(planned(1000, 1e-300) == planned(1000, error_rate_min));
}

TEST_CASE("a layer is planned up to its byte limit and refused one byte below") {
  for (const std::uint64_t capacity : {1ull, 100ull, 10'000ull, 1'000'000ull, 1'000'000'000'000ull}) {
    CAPTURE(capacity);
    const LayerRequest request{.capacity = capacity, .error_rate = 0.01};
    const std::uint64_t bytes = planned(capacity, 0.01).byte_count();
    CHECK(plan_layer(request, bytes));
    const auto refused = plan_layer(request, bytes - 1);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::too_large);
  }
}

TEST_CASE("no capacity makes a size overflow") {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t capacity : {largest, largest - 1, largest / 2, largest / 8}) {
    for (const double rate : rates) {
      const auto plan = plan_layer({.capacity = capacity, .error_rate = rate}, largest);
      REQUIRE_FALSE(plan);
      CHECK(plan.error().code == Errc::too_large);
    }
  }
}

TEST_CASE("the shares of a growing filter's layers never sum to more than one") {
  double sum = 0;
  for (std::uint32_t layer = 0; layer < 10'000; ++layer) {
    CHECK_FALSE(layer_rate_share(layer + 1) >= layer_rate_share(layer));
    sum += layer_rate_share(layer);
  }
  CHECK(sum <= 1);
  CHECK(near(sum, 1, 1e-3));
}

}  // namespace

}  // namespace layer_plan_test
