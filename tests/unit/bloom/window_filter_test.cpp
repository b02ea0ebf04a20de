// What a filter that forgets does at its edges: the head of its image, growth that is refused, lanes that are
// full.
#include <sepal/bloom/kind/window_kind.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/image.hpp>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace window_filter_test {

namespace {

using namespace sepal;
using namespace sepal::bloom;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};
constexpr std::uint64_t begin_ms = 1'700'000'000'000;

WallTime at(std::uint64_t milliseconds) {
  return WallTime(std::chrono::milliseconds(milliseconds));
}

WindowFilterPtr made(const WindowOptions& options) {
  const auto plan = plan_window(options, plenty.bytes_max);
  REQUIRE(plan);
  auto filter = WindowFilter::create(options, *plan, at(begin_ms));
  REQUIRE(filter);
  return *filter;
}

WindowOptions of_a_second(std::uint64_t capacity) {
  return {.error_rate = 0.001, .capacity = capacity, .milliseconds = 1'000, .generations = 4, .seed = 1};
}

bool try_add(WindowFilter& filter, const std::string& item, std::uint64_t now, bool& added) {
  const std::string_view view = item;
  return filter.try_add({&view, 1}, at(now), {&added, 1}, nullptr);
}

// The offsets of window_kind.cpp.
constexpr std::size_t newest_at = 8 + window_options_bytes;
constexpr std::size_t items_at = newest_at + 16;

void put(std::vector<std::byte>& image, std::size_t offset, std::uint64_t number) {
  std::memcpy(image.data() + offset, &number, sizeof number);
}

bool loads(const std::vector<std::byte>& image) {
  return bool(value::value_of(image, plenty));
}

}  // namespace

TEST_CASE("a generation that begins is a change, also where an add finds its item known") {
  const auto filter = made(of_a_second(100));
  bool added = false;
  REQUIRE(try_add(*filter, "a", begin_ms, added));
  REQUIRE(try_add(*filter, "b", begin_ms + 900, added));
  const std::uint64_t before = window_row.changes(*filter);
  REQUIRE(try_add(*filter, "b", begin_ms + 1'300, added));
  CHECK_FALSE(added);
  CHECK(filter->item_count() == 1);
  CHECK(window_row.changes(*filter) > before);
}

TEST_CASE("heads that no filter has are refused") {
  const auto filter = made(of_a_second(100));
  const std::vector<std::byte> image = value::image_of(*filter);
  REQUIRE(loads(image));
  const std::size_t layer_at = items_at + 5 * sizeof(std::uint64_t);
  const std::uint64_t largest = ~std::uint64_t{0};
  const auto refuses = [&](std::size_t offset, std::uint64_t number) {
    std::vector<std::byte> changed = image;
    put(changed, offset, number);
    return !loads(changed);
  };
  CHECK(refuses(newest_at, largest));
  CHECK(refuses(newest_at, largest - 1));
  CHECK(refuses(newest_at, 0));
  CHECK(refuses(items_at, largest));
  CHECK(refuses(layer_at, largest));  // its number
  CHECK(refuses(layer_at + 8, 0));    // its capacity
  CHECK(refuses(layer_at + 16, 0));   // its rate
  CHECK(refuses(layer_at + 24, 0));   // its blocks
  CHECK(refuses(layer_at + 24, largest >> 8));
  CHECK(refuses(layer_at + 32, 0));        // lines, zones and probes
  CHECK(refuses(layer_at + 36, largest));  // places taken
  for (std::size_t length = 0; length < image.size(); length += 7)
    CHECK_FALSE(value::value_of(std::span(image).first(length), plenty));
}

TEST_CASE("a copy has nothing of generations that began while it was copied") {
  const auto filter = made(of_a_second(100));
  bool added = false;
  REQUIRE(try_add(*filter, "before", begin_ms, added));
  const value::Frozen frozen{value::ValuePtr(filter)};
  REQUIRE(try_add(*filter, "behind", begin_ms + 300, added));
  const auto copied = frozen.copy(plenty, {});
  REQUIRE(copied);
  auto& copy = value::as<WindowFilter>(**copied);
  CHECK(copy.item_count(at(begin_ms + 300)) == 1);
  REQUIRE(try_add(copy, "behind", begin_ms + 300, added));
  CHECK(added);
  REQUIRE(try_add(copy, "before", begin_ms + 300, added));
  CHECK_FALSE(added);
}

TEST_CASE("a growth that is refused is not asked for again at once") {
  const auto filter = made(of_a_second(40));
  bool added = false;
  std::uint64_t number = 0;
  while (try_add(*filter, std::to_string(number), begin_ms, added)) ++number;
  CHECK(number == 10);
  CHECK(filter->may_grow(at(begin_ms)));
  const value::Limits tight{.bytes_max = filter->byte_count(), .layers_max = 64};
  CHECK(filter->grow(at(begin_ms), tight, {}) == Filter::Refusal::too_large);
  CHECK_FALSE(filter->may_grow(at(begin_ms)));
  CHECK(filter->refusal() == Filter::Refusal::too_large);
  CHECK(filter->may_grow(at(begin_ms + 1'000)));
  CHECK(filter->grow(at(begin_ms), {.bytes_max = plenty.bytes_max, .layers_max = 1}, {}) ==
        Filter::Refusal::layer_limit);
  CHECK(filter->grow(at(begin_ms), plenty, {}) == Filter::Refusal::none);
  CHECK(try_add(*filter, "more", begin_ms, added));
  CHECK(added);
}

TEST_CASE("a full lane takes what needs no place") {
  const bool refresh = GENERATE(false, true);
  WindowOptions options = of_a_second(40);
  options.refresh = refresh;
  const auto filter = made(options);
  bool added = false;
  for (std::uint64_t number = 0; number < 10; ++number)
    REQUIRE(try_add(*filter, std::to_string(number), begin_ms, added));
  CHECK(try_add(*filter, "3", begin_ms, added));
  CHECK_FALSE(added);
  CHECK_FALSE(try_add(*filter, "new", begin_ms, added));
  CHECK(filter->item_count() == 10);
  // In the next generation, a renewal needs a place, and moves the item there.
  CHECK(try_add(*filter, "3", begin_ms + 250, added));
  CHECK_FALSE(added);
  CHECK(filter->item_count() == 10);
  CHECK(filter->state(at(begin_ms + 250)).generations.front().items == (refresh ? 1 : 0));
}

TEST_CASE("a burst grows few layers, also with an expansion of 1") {
  WindowOptions options = of_a_second(40);
  options.expansion = 1;
  const auto filter = made(options);
  bool added = false;
  for (std::uint64_t number = 0; number < 10'000; ++number)
    while (!try_add(*filter, std::to_string(number), begin_ms, added))
      REQUIRE(filter->grow(at(begin_ms), plenty, {}) == Filter::Refusal::none);
  CHECK(filter->layer_count() < 16);
  CHECK(filter->state(at(begin_ms)).error_rate < options.error_rate);
}

TEST_CASE("the time of a generation") {
  const auto filter = made(of_a_second(40));
  const WindowFilter::State state = filter->state(at(begin_ms + 130));
  REQUIRE(state.generations.size() == 5);
  CHECK(state.generations.front().begin == begin_ms);
  CHECK(state.generations.front().number == filter->newest_generation());
  CHECK(state.generations.back().number == filter->newest_generation() - 4);
  CHECK(state.kept_since == begin_ms - 1'000);
  CHECK(state.forgets_next == begin_ms + 250);
  // Longer than the time since 1970.
  WindowOptions options = of_a_second(40);
  options.milliseconds = std::uint64_t{1000} * 366 * 86'400'000;
  const auto century = made(options);
  CHECK(century->state(at(begin_ms)).generations.front().begin == 0);
}

}  // namespace window_filter_test
