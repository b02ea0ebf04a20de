// A filter made of the bits of others is held against filters that were given the items themselves.
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/unite.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "support/redisbloom_filter.hpp"

namespace unite_property {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

std::vector<std::string> items_from(std::uint64_t first, std::uint64_t count) {
  std::vector<std::string> items;
  for (std::uint64_t i = 0; i < count; ++i) items.push_back("item-" + std::to_string(first + i));
  return items;
}

void add(Filter& filter, const std::vector<std::string>& items) {
  for (const std::string& item : items) {
    const auto refusal = filter.add_alone(item, plenty).refusal;
    if (refusal != Filter::Refusal::none && refusal != Filter::Refusal::full) FAIL("an item is refused");
  }
}

bool has_all(const Filter& filter, const std::vector<std::string>& items) {
  return std::ranges::all_of(items, [&](const std::string& item) {
    const std::string_view word = item;
    bool present = false;
    filter.contains({&word, 1}, {&present, 1});
    return present;
  });
}

double answered_rate(const Filter& filter, std::uint64_t absent_count) {
  std::uint64_t maybes = 0;
  for (std::uint64_t i = 0; i < absent_count; ++i) {
    const std::string item = "absent-" + std::to_string(i);
    const std::string_view word = item;
    bool present = false;
    filter.contains({&word, 1}, {&present, 1});
    maybes += present ? 1 : 0;
  }
  return static_cast<double>(maybes) / static_cast<double>(absent_count);
}

std::vector<std::byte> bits_of(const Filter& filter, std::uint32_t layer) {
  std::vector<std::byte> bits(filter.layer(layer).plan().byte_count());
  filter.layer(layer).copy_bits(0, bits);
  return bits;
}

FilterPtr made(const FilterOptions& options) {
  auto filter = Filter::create(options, plenty);
  REQUIRE(filter.ok());
  return *filter;
}

std::vector<PartLayers> layers_of(const std::vector<const Filter*>& filters) {
  std::vector<PartLayers> layers;
  for (const Filter* const filter : filters) layers.push_back(filter->layers());
  return layers;
}

FilterPtr united(const std::vector<const Filter*>& parts, FilterMeasure& measured) {
  auto shape = shape_of_union(parts);
  REQUIRE(shape.ok());
  const auto layers = layers_of(parts);
  measured = measure_union(*shape, layers, measured_bytes_max);
  count_union(*shape, layers, measured);
  auto filter = unite(*shape, layers, plenty, {});
  REQUIRE(filter.ok());
  return *filter;
}

}  // namespace

TEST_CASE("a union has the bits of a filter that was given all items, and errs as predicted") {
  const std::uint64_t capacity = GENERATE(90, 3000, 60'000);
  const std::uint64_t part_count = GENERATE(1, 2, 5);
  const double rate = GENERATE(0.01, 0.0005);
  CAPTURE(capacity, part_count, rate);
  const FilterOptions options{.error_rate = rate, .capacity = capacity, .expansion = 2, .seed = 7};
  const FilterPtr all = made(options);
  std::vector<FilterPtr> parts;
  std::vector<const Filter*> pointers;
  std::vector<std::vector<std::string>> items;
  // Neighbours share a third of their items.
  const std::uint64_t each = capacity / part_count;
  for (std::uint64_t part = 0; part < part_count; ++part) {
    parts.push_back(made(options));
    items.push_back(items_from(part * each * 2 / 3, each));
    add(*parts.back(), items.back());
    add(*all, items.back());
    pointers.push_back(parts.back().get());
  }
  FilterMeasure measured;
  const FilterPtr whole = united(pointers, measured);
  for (const auto& of_part : items) CHECK(has_all(*whole, of_part));
  REQUIRE(whole->layer_count() == 1);
  // An item that was taken for a known one in `all` has all of its bits there.
  CHECK(bits_of(*whole, 0) == bits_of(*all, 0));
  CHECK(whole->options() == options);
  const double different = static_cast<double>(all->item_count());
  const double tolerance = 4 * std::sqrt(different) + 0.02 * different;
  CHECK(std::abs(static_cast<double>(whole->item_count()) - different) <= tolerance);
  constexpr std::uint64_t asked = 200'000;
  const double answered = answered_rate(*whole, asked);
  const double error = 4 * std::sqrt(std::max(measured.false_positive_rate, 1e-9) / asked);
  CHECK(std::abs(answered - measured.false_positive_rate) <= 0.1 * answered + error);
}

TEST_CASE("filters that have grown unite layer by layer, and the result grows on") {
  const FilterOptions options{.error_rate = 0.01, .capacity = 100, .expansion = 2, .seed = 3};
  const std::uint64_t first_count = GENERATE(50, 900);
  const std::uint64_t second_count = GENERATE(250, 20'000);
  const FilterPtr first = made(options);
  const FilterPtr second = made(options);
  const auto of_first = items_from(0, first_count);
  const auto of_second = items_from(10'000'000, second_count);
  add(*first, of_first);
  add(*second, of_second);
  FilterMeasure measured;
  const FilterPtr whole = united({first.get(), second.get()}, measured);
  CHECK(has_all(*whole, of_first));
  CHECK(has_all(*whole, of_second));
  CHECK(whole->layer_count() == std::max(first->layer_count(), second->layer_count()));
  constexpr std::uint64_t asked = 200'000;
  const double answered = answered_rate(*whole, asked);
  const double error = 4 * std::sqrt(std::max(measured.false_positive_rate, 1e-9) / asked);
  CHECK(std::abs(answered - measured.false_positive_rate) <= 0.1 * answered + error);
  const auto later = items_from(20'000'000, 2 * whole->capacity());
  add(*whole, later);
  CHECK(has_all(*whole, later));
}

TEST_CASE("filters that differ are not united, and the error names the difference") {
  const FilterOptions options{.error_rate = 0.01, .capacity = 1000, .expansion = 2, .seed = 3};
  FilterOptions other = options;
  std::string named;
  SECTION("seed") {
    other.seed = 4;
    named = "different seeds";
  }
  SECTION("capacity") {
    other.capacity = 1001;
    named = "capacities: 1000 and 1001";
  }
  SECTION("rate") {
    other.error_rate = 0.02;
    named = "error rates: 0.01";
  }
  SECTION("expansion") {
    other.expansion = 4;
    named = "expansions: 2 and 4";
  }
  const FilterPtr a = made(options);
  const FilterPtr b = made(other);
  const std::vector<const Filter*> parts{a.get(), b.get()};
  const auto shape = shape_of_union(parts);
  REQUIRE_FALSE(shape.ok());
  CHECK(shape.error().code == Errc::out_of_range);
  CHECK(shape.error().detail.find(named) != std::string::npos);
}

TEST_CASE("a shrunk filter is the filter that was built at that size, bit for bit") {
  const std::uint64_t capacity = GENERATE(200'000, 1'500'000);
  const double rate = GENERATE(0.01, 0.0001);
  const std::uint64_t share = GENERATE(2, 3, 10, 60);
  CAPTURE(capacity, rate, share);
  const FilterOptions options{.error_rate = rate, .capacity = capacity, .expansion = 2, .seed = 11};
  const FilterPtr large = made(options);
  const std::uint64_t item_count = capacity / share / 2;
  const auto items = items_from(0, item_count);
  add(*large, items);
  const auto shape = shape_shrunk(*large, capacity / share);
  REQUIRE(shape.has_value());
  CHECK(shape->options.capacity >= capacity / share);
  const std::vector<const Filter*> parts{large.get()};
  const auto shrunk = unite(*shape, layers_of(parts), plenty, {});
  REQUIRE(shrunk.ok());
  CHECK((*shrunk)->item_count() == large->item_count());
  CHECK((*shrunk)->byte_count() <= large->byte_count() / std::min<std::uint64_t>(share, 2) + 4096);
  const auto built = Filter::recreate(shape->options, shape->layers[0].plan, plenty);
  REQUIRE(built.ok());
  add(**built, items);
  CHECK(bits_of(**shrunk, 0) == bits_of(**built, 0));
  CHECK(has_all(**shrunk, items));
  // It keeps its rate when it holds its capacity, and its image is a filter's.
  add(**shrunk, items_from(10'000'000, shape->options.capacity - (*shrunk)->item_count()));
  CHECK((*shrunk)->layer_count() == 1);
  constexpr std::uint64_t asked = 400'000;
  CHECK(answered_rate(**shrunk, asked) <= rate + 0.05 * rate + 4 * std::sqrt(rate / asked));
  CHECK(decode_image_header(encode(header_of(**shrunk)), 64).ok());
}

TEST_CASE("the newest layer of a filter that has grown is shrunk") {
  const FilterOptions options{.error_rate = 0.01, .capacity = 50'000, .expansion = 8, .seed = 11};
  const FilterPtr grown = made(options);
  const auto items = items_from(0, 60'000);
  add(*grown, items);
  REQUIRE(grown->layer_count() == 2);
  const auto shape = shape_shrunk(*grown, 100'000);
  REQUIRE(shape.has_value());
  CHECK(shape->layers[1].plan.capacity >= 50'000);
  CHECK(shape->layers[1].plan.capacity <= 100'000);
  const std::vector<const Filter*> parts{grown.get()};
  const auto shrunk = unite(*shape, layers_of(parts), plenty, {});
  REQUIRE(shrunk.ok());
  CHECK(has_all(**shrunk, items));
  const auto header = decode_image_header(encode(header_of(**shrunk)), 64);
  REQUIRE(header.ok());
  CHECK(header->layers[1].plan == shape->layers[1].plan);
  const auto later = items_from(10'000'000, 400'000);
  add(**shrunk, later);
  CHECK((*shrunk)->layer_count() == 3);
  CHECK(has_all(**shrunk, later));
  CHECK(has_all(**shrunk, items));
}

TEST_CASE("a filter is not shrunk below its items, nor one of a single block") {
  const FilterPtr full = made({.error_rate = 0.01, .capacity = 100'000, .seed = 1});
  add(*full, items_from(0, 60'000));
  CHECK_FALSE(shape_shrunk(*full, 1).has_value());
  const FilterPtr tiny = made({.error_rate = 0.01, .capacity = 100, .seed = 1});
  CHECK_FALSE(shape_shrunk(*tiny, 1).has_value());
}

TEST_CASE("a filter of RedisBloom is folded as RedisBloom would have built it") {
  // It has 1500 words.
  const auto filter = test::redisbloom_filter({.error_rate = 0.01, .capacity = 10'013});
  const auto items = items_from(0, 1000);
  add(*filter, items);
  const auto shape = shape_shrunk(*filter, 2000);
  REQUIRE(shape.has_value());
  const std::vector<const Filter*> parts{filter.get()};
  const auto shrunk = unite(*shape, layers_of(parts), plenty, {});
  REQUIRE(shrunk.ok());
  CHECK(has_all(**shrunk, items));
  auto built = Filter::restore(shape->options,
                               std::vector<Filter::LayerState>{{.plan = shape->layers[0].plan}}, plenty);
  REQUIRE(built.ok());
  add(**built, items);
  CHECK(bits_of(**shrunk, 0) == bits_of(**built, 0));
}

}  // namespace unite_property
