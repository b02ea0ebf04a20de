// The rows of the kinds (value/kind_row.hpp) against what the classes themselves say.
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"

namespace kind_test {
namespace {

using namespace sepal;
using bloom::Filter;
using bloom::FilterPtr;
using value::ValuePtr;

constexpr value::Limits plenty{.bytes_max = std::uint64_t{1} << 40, .layers_max = 64};

FilterPtr filter_with(std::uint64_t item_count) {
  auto made = Filter::create({.error_rate = 0.01, .capacity = 100}, plenty);
  REQUIRE(made.ok());
  for (std::uint64_t item = 0; item < item_count; ++item)
    CHECK((*made)->add_alone(std::to_string(item), plenty).refusal == Filter::Refusal::none);
  return *made;
}

TEST_CASE("each kind has its row at its number, and no other number has one") {
  for (std::size_t index = 0; index < value::kinds.size(); ++index)
    CHECK(static_cast<std::size_t>(value::kinds[index]->kind) == index);
  CHECK(value::find_row(static_cast<std::uint8_t>(value::kinds.size())) == nullptr);
  CHECK(&value::row_of(*filter_with(0)) == &bloom::bloom_row);
}

TEST_CASE("a value is its class, and none of another kind") {
  const ValuePtr value = filter_with(0);
  CHECK(value::as<Filter>(value.get()) == value.get());
  CHECK(value::as<Filter>(static_cast<value::Value*>(nullptr)) == nullptr);
}

TEST_CASE("an image by the row is the image of the class, and makes the value again") {
  const std::vector<ValuePtr> values = {filter_with(0), filter_with(1000)};
  for (const ValuePtr& each : values) {
    const std::vector<std::byte> image = value::image_of(*each);
    CHECK(value::image_bytes(*each) == image.size());
    CHECK(value::row_of_image(image) == &value::row_of(*each));
    const auto made = value::value_of(image, plenty);
    REQUIRE(made.ok());
    CHECK(value::image_of(**made) == image);
    CHECK(value::row_of(**made).item_count(**made) == value::row_of(*each).item_count(*each));
  }
}

TEST_CASE("what is no image, or is cut short, is refused") {
  const std::vector<std::byte> image = value::image_of(*filter_with(3));
  CHECK(value::value_of({}, plenty).error().code == Errc::damaged);
  for (std::size_t length = 0; length < image.size(); ++length)
    CHECK_FALSE(value::value_of(std::span(image).first(length), plenty).ok());
}

TEST_CASE("a frozen filter keeps its counts and layers while it grows, and loses no item of the instant") {
  const FilterPtr filter = filter_with(100);
  const value::Frozen frozen{ValuePtr(filter)};
  const std::vector<std::byte> head = frozen.head();
  for (int item = 1000; item < 2000; ++item)
    CHECK(filter->add_alone(std::to_string(item), plenty).refusal == Filter::Refusal::none);
  CHECK(frozen.head() == head);
  const auto copy = frozen.copy(plenty, {});
  REQUIRE(copy.ok());
  const auto* const copied = value::as<Filter>(copy->get());
  CHECK(copied->item_count() == 100);
  bool present[1] = {};
  for (int item = 0; item < 100; ++item) {
    const std::string text = std::to_string(item);
    const std::string_view words[1] = {text};
    copied->contains(words, present);
    CHECK(present[0]);
  }
}

TEST_CASE("records make the filter, and its growth, again") {
  const auto plan = Filter::plan({.error_rate = 0.01, .capacity = 100, .seed = 7}, plenty);
  REQUIRE(plan.ok());
  const value::KindRow& row = bloom::bloom_row;
  auto made = row.make_recorded(bloom::made_record(*plan), plenty);
  REQUIRE(made.ok());
  CHECK(value::as<Filter>(made->get())->options() == plan->options);
  const FilterPtr grown = filter_with(300);
  const bloom::LayerPlan layer = grown->layer(1).plan();
  const auto changed = row.apply(**made, bloom::grown_change, bloom::grown_record(layer), plenty);
  REQUIRE(changed.ok());
  CHECK(*changed == nullptr);
  CHECK(value::as<Filter>(made->get())->layer(1).plan() == layer);
  // The same layer is not the next one.
  CHECK(row.apply(**made, bloom::grown_change, bloom::grown_record(layer), plenty).error().code ==
        Errc::out_of_range);
  const Fingerprint entry{.low = 1, .high = 2};
  const std::uint64_t changes = row.changes(**made);
  CHECK(row.add(**made, {&entry, 1}));
  CHECK(row.changes(**made) == changes + 1);
}

TEST_CASE("bytes that are no record are damage, whatever they are") {
  const FilterPtr filter = filter_with(0);
  const std::vector<std::byte> bytes(100);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto some = std::span(bytes).first(length);
    CHECK_FALSE(bloom::bloom_row.make_recorded(some, plenty).ok());
    CHECK_FALSE(bloom::bloom_row.apply(*filter, bloom::grown_change, some, plenty).ok());
    CHECK_FALSE(bloom::bloom_row.apply(*filter, 9, some, plenty).ok());
  }
}

}  // namespace
}  // namespace kind_test
