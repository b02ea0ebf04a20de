#include "golden_remade.hpp"

#include <sepal/bloom/filter/unite.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <string>
#include <vector>

#include "golden_cuckoo.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"
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
  CHECK(keyspace.size(1) == 2);
  CHECK(keyspace.size(6) == 1);
}

}  // namespace formats_test
