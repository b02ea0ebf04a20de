#include "golden_remade.hpp"

#include <sepal/bloom/filter/unite.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/window_writer.hpp>

#include <optional>
#include <string>
#include <vector>

#include "golden_cuckoo.hpp"
#include "golden_window.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"
#include "support/united_windows.hpp"
#include "support/values.hpp"

namespace formats_test {

using namespace sepal;
using namespace sepal::test;

namespace {

constexpr bloom::FilterOptions of_parts{.error_rate = 0.01, .capacity = 300, .expansion = 20, .seed = 5};

void add_items(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
               std::uint64_t from, std::uint64_t to) {
  std::vector<bloom::Filter::AddOutcome> outcomes;
  for (std::uint64_t i = from; i < to; ++i) {
    const std::string item = item_of("remade", i);
    const std::string_view view = item;
    sepal::writers::add_alone(mutator, key, *filter_at(keyspace, key), {&view, 1}, outcomes);
  }
}

// Makes the value under `key` of those under the names, which it shrinks if there is a capacity.
void remake(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
            const std::vector<std::string_view>& names, std::uint64_t capacity = 0) {
  std::vector<const bloom::Filter*> filters;
  std::vector<bloom::PartLayers> layers;
  std::vector<keyspace::Part> parts;
  for (const std::string_view name : names) {
    filters.push_back(filter_at(keyspace, {.database = key.database, .key = name}));
    layers.push_back(filters.back()->layers());
    parts.push_back({.key = name, .extent = filters.back()->layer_count()});
  }
  bloom::ImageHeader shape;
  if (capacity != 0) {
    const auto shrunk = bloom::shape_shrunk(*filters[0], capacity);
    REQUIRE(shrunk);
    shape = *shrunk;
  } else {
    const auto of_union = bloom::shape_of_union(filters);
    REQUIRE(of_union);
    shape = *of_union;
    bloom::count_union(shape, layers, bloom::measure_union(shape, layers, bloom::measured_bytes_max));
  }
  const auto made = bloom::unite(shape, layers, roomy, {});
  REQUIRE(made);
  REQUIRE(mutator.remake(key, *made, bloom::encode(shape), parts));
}

constexpr bloom::WindowOptions of_windows{
    .error_rate = 1e-6, .capacity = 40, .milliseconds = 4000, .seed = 5};

keyspace::DatabaseKey window_key(std::string_view name) {
  return {.database = 1, .key = name};
}

void see(keyspace::Mutator& mutator, std::string_view name, std::uint64_t from, std::uint64_t to,
         int second) {
  std::vector<std::string> items;
  for (std::uint64_t i = from; i < to; ++i) items.push_back(item_of("united", i));
  const std::vector<std::string_view> views(items.begin(), items.end());
  std::vector<bloom::WindowFilter::AddOutcome> outcomes;
  const auto key = window_key(name);
  if (auto* const filter = mutator.keyspace().find_as<bloom::WindowFilter>(key)) {
    sepal::writers::add_growing(mutator, key, *filter, views, at_second(second), outcomes);
  } else {
    REQUIRE(sepal::writers::create(
        mutator, key, {.options = of_windows, .items = views, .now = at_second(second)}, outcomes));
  }
}

// Makes the value under the key of both.
void unite_windows(keyspace::Mutator& mutator, std::string_view name, std::optional<std::size_t> continued,
                   int second) {
  const std::vector<std::string_view> names{"seen by one", "seen by two"};
  std::vector<const bloom::WindowFilter*> filters;
  for (const auto each : names)
    filters.push_back(mutator.keyspace().find_as<bloom::WindowFilter>(window_key(each)));
  const auto united = test::unite_windows(filters, names, continued, at_second(second));
  REQUIRE(united);
  REQUIRE(mutator.remake(window_key(name), united->made, united->head, united->parts));
}

// It knows these items then, and no others of the first 30.
void require_seen(const keyspace::Keyspace& keyspace, std::string_view name, int second, std::uint64_t from,
                  std::uint64_t to) {
  INFO(name << " at second " << second);
  const auto* const filter = keyspace.find_as<bloom::WindowFilter>(window_key(name));
  REQUIRE(filter != nullptr);
  for (std::uint64_t i = 0; i < 30; ++i) {
    const std::string item = item_of("united", i);
    const std::string_view view = item;
    bool known = false;
    filter->contains({&view, 1}, at_second(second), {&known, 1});
    REQUIRE(known == (i >= from && i < to));
  }
}

void require_items(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key, std::uint64_t from,
                   std::uint64_t to) {
  INFO(key.key);
  const bloom::Filter* const filter = filter_at(keyspace, key);
  REQUIRE(filter != nullptr);
  for (std::uint64_t i = from; i < to; ++i) REQUIRE(contains(*filter, item_of("remade", i)));
}

}  // namespace

void add_shrunk_of_the_cut(keyspace::Keyspace& keyspace) {
  keyspace::Mutator without_journal(keyspace, nullptr);
  const keyspace::DatabaseKey key{.database = 7, .key = "shrunk"};
  REQUIRE(sepal::writers::create(without_journal, key, of_parts));
  add_items(without_journal, keyspace, key, 0, 310);
  remake(without_journal, keyspace, key, {"shrunk"}, 400);
}

void change_as_in_version_14(keyspace::Mutator& mutator, keyspace::Keyspace& keyspace) {
  const keyspace::DatabaseKey one{.database = 1, .key = "one"};
  const keyspace::DatabaseKey two{.database = 1, .key = "two"};
  for (const auto& key : {one, two}) REQUIRE(sepal::writers::create(mutator, key, of_parts));
  add_items(mutator, keyspace, one, 0, 100);
  add_items(mutator, keyspace, two, 90, 150);
  REQUIRE(mutator.set_deadline(two, 33'177'117'420'000));
  remake(mutator, keyspace, {.database = 1, .key = "union"}, {"one", "two"});
  remake(mutator, keyspace, two, {"two", "one"});
  add_items(mutator, keyspace, two, 150, 160);
  REQUIRE(mutator.remove(one));
}

// The filters have grown, and their first layers are gone.
void change_as_in_version_15(keyspace::Mutator& mutator) {
  for (const auto name : {"seen by one", "seen by two"}) {
    see(mutator, name, 100, 115, -10);
    see(mutator, name, 115, 116, -4);
  }
  see(mutator, "seen by two", 0, 8, 0);
  see(mutator, "seen by one", 6, 12, 2);
  unite_windows(mutator, "seen", std::nullopt, 2);
  unite_windows(mutator, "seen by two", 1, 2);
  see(mutator, "seen by two", 12, 14, 3);
  // By the time of a replay, this one has gone on.
  see(mutator, "seen by one", 20, 25, 4);
  REQUIRE(mutator.remove(window_key("seen by one")));
}

void require_united_windows(const keyspace::Keyspace& keyspace) {
  require_seen(keyspace, "seen", 2, 0, 12);
  require_seen(keyspace, "seen", 4, 0, 12);
  require_seen(keyspace, "seen", 5, 6, 12);
  require_seen(keyspace, "seen", 7, 0, 0);
  require_seen(keyspace, "seen by two", 4, 0, 14);
  require_seen(keyspace, "seen by two", 6, 6, 14);
  require_seen(keyspace, "seen by two", 7, 12, 14);
  const auto& two = *keyspace.find_as<bloom::WindowFilter>(window_key("seen by two"));
  CHECK(two.layer_count() == 1);
  CHECK(two.layers_made() == 2);
}

void require_remade(const keyspace::Keyspace& keyspace) {
  const keyspace::DatabaseKey shrunk{.database = 6, .key = "shrunk"};
  require_items(keyspace, shrunk, 0, 310);
  const bloom::Filter& small = *filter_at(keyspace, shrunk);
  CHECK(small.layer_count() == 2);
  CHECK(small.layer(1).plan().capacity < 6000);
  CHECK(small.layer(1).plan().capacity >= 100);
  require_items(keyspace, {.database = 1, .key = "union"}, 0, 150);
  require_items(keyspace, {.database = 1, .key = "two"}, 0, 160);
  CHECK(keyspace.deadline({.database = 1, .key = "union"}) == keyspace::no_deadline);
  CHECK(keyspace.deadline({.database = 1, .key = "two"}) == 33'177'117'420'000);
  CHECK(keyspace.size(6) == 1);
}

}  // namespace formats_test
