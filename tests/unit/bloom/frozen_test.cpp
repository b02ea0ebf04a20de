#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"

namespace frozen_test {

using namespace sepal;
using namespace sepal::bloom;
using value::Frozen;

namespace {

constexpr FilterLimits plenty{.bytes_max = std::uint64_t{1} << 32, .layers_max = 64};

FilterPtr filter_with(int items, const FilterOptions& options) {
  auto filter = Filter::create(options, plenty);
  REQUIRE(filter);
  for (int i = 0; i < items; ++i) (void)(*filter)->add_alone("item " + std::to_string(i), plenty);
  return *filter;
}

// The filter that a copy is.
const Filter& filter_in(const Result<value::ValuePtr>& copied) {
  const auto* const filter = copied ? value::as<Filter>(copied->get()) : nullptr;
  REQUIRE(filter != nullptr);
  return *filter;
}

bool contains(const Filter& filter, const std::string& item) {
  const std::string_view view = item;
  bool present = false;
  filter.contains({&view, 1}, {&present, 1});
  return present;
}

}  // namespace

TEST_CASE("a copy of a frozen filter has the layers and counts of that instant, and all earlier items") {
  const auto filter = filter_with(25, {.capacity = 10, .seed = 3});
  const Frozen frozen{value::ValuePtr(filter)};
  CHECK(frozen.image_bytes() == value::image_bytes(*filter));
  const auto same = frozen.copy(plenty, {});
  CHECK(value::image_of(filter_in(same)) == value::image_of(*filter));
  for (int i = 25; i < 200; ++i) (void)filter->add_alone("item " + std::to_string(i), plenty);
  REQUIRE(filter->layer_count() > 2);
  const auto copied = frozen.copy(plenty, {});
  CHECK(filter_in(copied).item_count() == 25);
  CHECK(filter_in(copied).layer_count() == 2);
  for (int i = 0; i < 25; ++i) CHECK(contains(filter_in(copied), "item " + std::to_string(i)));
  std::vector<std::byte> image;
  const auto take = [&](const std::string& piece) {
    const auto bytes = std::as_bytes(std::span(piece));
    image.insert(image.end(), bytes.begin(), bytes.end());
  };
  REQUIRE(value::write_image(frozen.view(), take, {}));
  CHECK(image.size() == frozen.image_bytes());
  CHECK(image == value::image_of(filter_in(copied)));
}

TEST_CASE("a copy that is cancelled, or does not fit, ends with an error") {
  const Frozen frozen(value::ValuePtr(filter_with(25, {.capacity = 10'000'000, .seed = 3})));
  std::vector<std::uint64_t> told;
  const auto given_up = frozen.copy(plenty, [&](std::uint64_t done) {
    told.push_back(done);
    return told.size() < 3;
  });
  REQUIRE_FALSE(given_up);
  CHECK(given_up.error().code == Errc::io);
  CHECK(told == std::vector<std::uint64_t>{1 << 20, 2 << 20, 3 << 20});
  const auto refused = frozen.copy({.bytes_max = 1000}, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::too_large);
}

TEST_CASE("a filter may be copied while others add to it") {
  const auto filter = filter_with(1000, {.capacity = 1'000'000, .seed = 3});
  const Frozen frozen{value::ValuePtr(filter)};
  std::atomic<bool> stop{false};
  std::thread adding([&] {
    for (int i = 1000; !stop; ++i) {
      const std::string item = "item " + std::to_string(i);
      const std::string_view view = item;
      bool added = false;
      (void)filter->try_add({&view, 1}, {&added, 1});
    }
  });
  for (int round = 0; round < 20; ++round) {
    const auto copied = frozen.copy(plenty, {});
    REQUIRE(filter_in(copied).item_count() == 1000);
    for (int i = 0; i < 1000; ++i) REQUIRE(contains(filter_in(copied), "item " + std::to_string(i)));
  }
  stop = true;
  adding.join();
}

}  // namespace frozen_test
