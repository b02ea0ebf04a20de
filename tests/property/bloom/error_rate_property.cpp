// Measures the promised error rates with few items. benchmarks/accuracy measures them thoroughly.
#include <sepal/bloom/filter/filter.hpp>

#include "support/catch.hpp"
#include "support/redisbloom_filter.hpp"

namespace error_rate_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

// Sixteen bytes each, all different: counters.
class Items {
 public:
  static constexpr std::size_t batch_items = 64;

  std::span<const std::string_view> batch(std::uint64_t kind, std::uint64_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      numbers_[i] = {kind, first + i};
      views_[i] = {reinterpret_cast<const char*>(&numbers_[i]), sizeof numbers_[i]};
    }
    return std::span(views_).first(count);
  }

 private:
  struct Number {
    std::uint64_t kind, index;
  };
  Number numbers_[batch_items] = {};
  std::string_view views_[batch_items];
};

constexpr std::uint64_t added_kind = 1, absent_kind = 2;

// Adds as many items as the filter is planned for. A filter that scales is filled until it would grow again.
void fill(Filter& filter, std::uint32_t growths) {
  Items items;
  std::uint64_t next = 0;
  const auto full = [&] {
    if (!filter.options().scaling()) return next == filter.capacity();
    return filter.layer_count() > growths && filter.item_count() == filter.capacity();
  };
  while (!full()) (void)filter.add_alone(items.batch(added_kind, next++, 1).front(), plenty);
}

std::uint64_t count_maybes(const Filter& filter, std::uint64_t absent_count) {
  Items items;
  bool present[Items::batch_items];
  std::uint64_t maybes = 0;
  for (std::uint64_t first = 0; first < absent_count; first += Items::batch_items) {
    filter.contains(items.batch(absent_kind, first, Items::batch_items), present);
    maybes += static_cast<std::uint64_t>(std::count(std::begin(present), std::end(present), true));
  }
  return maybes;
}

struct Measured {
  double rate;
  double standard_error;
};

// Measures filters of many seeds, because the rate of a single small filter varies.
Measured measure(FilterOptions options, std::uint32_t growths, int filter_count, std::uint64_t absent_each) {
  std::vector<double> rates;
  for (int i = 0; i < filter_count; ++i) {
    options.seed = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15 + 1;
    const auto filter = Filter::create(options, plenty);
    REQUIRE(filter);
    fill(**filter, growths);
    rates.push_back(static_cast<double>(count_maybes(**filter, absent_each)) /
                    static_cast<double>(absent_each));
  }
  double sum = 0, square_sum = 0;
  for (const double rate : rates) sum += rate;
  const double mean = sum / filter_count;
  for (const double rate : rates) square_sum += (rate - mean) * (rate - mean);
  const double between = std::sqrt(square_sum / (filter_count - 1) / filter_count);
  const double binomial = std::sqrt(mean / (static_cast<double>(absent_each) * filter_count));
  return {.rate = mean, .standard_error = std::max(between, binomial)};
}

TEST_CASE("the measured error rate is at most the one asked for", "[unsanitized]") {
  struct Case {
    FilterOptions options;
    std::uint32_t growths;
    int filter_count;
  };
  const Case cases[] = {
      {{.error_rate = 0.25, .capacity = 10, .expansion = 0}, 0, 100},
      {{.error_rate = 0.01, .capacity = 1, .expansion = 0}, 0, 100},
      {{.error_rate = 0.01, .capacity = 100, .expansion = 0}, 0, 100},
      {{.error_rate = 0.001, .capacity = 3000, .expansion = 0}, 0, 30},
      {{.error_rate = 0.25, .capacity = 20'000, .expansion = 0}, 0, 10},
      {{.error_rate = 0.01, .capacity = 20'000, .expansion = 0}, 0, 10},
      {{.error_rate = 0.1, .capacity = 10, .expansion = 2}, 5, 50},
      {{.error_rate = 0.01, .capacity = 20, .expansion = 2}, 8, 10},
  };
  for (const auto& [options, growths, filter_count] : cases) {
    CAPTURE(options.error_rate, options.capacity, growths);
    const Measured measured =
        measure(options, growths, filter_count, 640'000 / static_cast<std::uint64_t>(filter_count));
    CAPTURE(measured.rate, measured.standard_error);
    CHECK(measured.rate <= options.error_rate + 3 * measured.standard_error);
  }
}

// A filter of RedisBloom that is full but has no bits set. So only the layers that it grows can answer yes.
FilterPtr full_without_bits(double error_rate, std::uint64_t capacity) {
  auto shape = test::empty_redisbloom({.error_rate = error_rate, .capacity = capacity, .expansion = 10});
  shape.item_count = shape.layers[0].item_count = capacity;
  const auto image = image_of(shape);
  REQUIRE(image);
  return *Filter::restore(image->options, image->layers, plenty);
}

TEST_CASE("layers that use RedisBloom's hash have their planned rate", "[unsanitized]") {
  constexpr int filter_count = 10;
  constexpr std::uint64_t absent_each = 200'000;
  struct Case {
    double error_rate;
    std::uint64_t capacity;
  };
  for (const auto [error_rate, capacity] :
       {Case{0.125, 2000}, Case{0.02, 10}, Case{0.02, 200}, Case{0.02, 10'000}, Case{0.001, 20'000}}) {
    std::vector<double> rates;
    LayerPlan plan;
    for (std::uint64_t kind = 0; kind < filter_count; ++kind) {
      const auto filter = full_without_bits(error_rate, capacity);
      Items items;
      for (std::uint64_t next = 0; next < capacity * 10; ++next)
        (void)filter->add_alone(items.batch(2 * kind, next, 1).front(), plenty);
      plan = filter->newest_layer().plan();
      std::uint64_t maybes = 0;
      bool present[Items::batch_items];
      for (std::uint64_t first = 0; first < absent_each; first += Items::batch_items) {
        filter->contains(items.batch(2 * kind + 1, first, Items::batch_items), present);
        maybes += static_cast<std::uint64_t>(std::count(std::begin(present), std::end(present), true));
      }
      rates.push_back(static_cast<double>(maybes) / static_cast<double>(absent_each));
    }
    double mean = 0, square_sum = 0;
    for (const double rate : rates) mean += rate / filter_count;
    for (const double rate : rates) square_sum += (rate - mean) * (rate - mean);
    const double binomial = std::sqrt(mean / (static_cast<double>(absent_each) * filter_count));
    const double standard_error =
        std::max(std::sqrt(square_sum / (filter_count - 1) / filter_count), binomial);
    const double expected = expected_error_rate(plan, plan.capacity);
    CAPTURE(error_rate, capacity, plan.error_rate, expected, mean, standard_error);
    CHECK(mean <= plan.error_rate + 3 * standard_error);
    CHECK(std::abs(mean - expected) <= 4 * standard_error);
  }
}

TEST_CASE("the measured error rate is close to the expected one, so no bits are wasted", "[unsanitized]") {
  for (const double error_rate : {0.25, 0.1, 0.01}) {
    const FilterOptions options{.error_rate = error_rate, .capacity = 20'000, .expansion = 0};
    const auto plan = plan_layer({.capacity = options.capacity, .error_rate = error_rate}, plenty.bytes_max);
    REQUIRE(plan);
    const double expected = expected_error_rate(*plan, options.capacity);
    const Measured measured = measure(options, 0, 10, 200'000);
    CAPTURE(error_rate, expected, measured.rate, measured.standard_error);
    CHECK(std::abs(measured.rate - expected) <= 4 * measured.standard_error);
  }
}

}  // namespace

}  // namespace error_rate_property
