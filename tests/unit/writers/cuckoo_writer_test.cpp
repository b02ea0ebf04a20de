#include <sepal/writers/cuckoo_writer.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"

namespace cuckoo_writer_test {

namespace {

using namespace sepal;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;
using Outcomes = std::vector<cuckoo::Filter::AddOutcome>;

struct Place {
  test::FreeingHousekeeper housekeeper;
  Keyspace keys{{}, housekeeper};
  Limbo limbo{nullptr};
  Mutator changes{keys, nullptr, &limbo};
};

void add_many(Mutator& changes, DatabaseKey key, cuckoo::Filter& filter, int count) {
  Outcomes outcomes;
  for (int number = 0; number < count; ++number) {
    const std::string item = std::to_string(number);
    const std::string_view view = item;
    REQUIRE(writers::add(changes, key, filter, {&view, 1}, cuckoo::Filter::AddIf::always, outcomes));
  }
}

}  // namespace

TEST_CASE("without a journal, what a filter takes after it has lost its key is in no account") {
  Place place;
  const DatabaseKey key{.database = 0, .key = "filter"};
  place.changes.remove(key);
  Outcomes outcomes;
  REQUIRE(writers::create(place.changes, {.database = 0, .key = "first"}, {}, outcomes));
  place.changes.remove({.database = 0, .key = "first"});
  const std::uint64_t empty_bytes = place.keys.memory_used();
  REQUIRE(writers::create(place.changes, key, {.options = {.capacity_given = false}}, outcomes));
  // Another worker has found the filter before it is removed, and adds to it.
  const auto filter = cuckoo::FilterPtr(place.keys.find_as<cuckoo::Filter>(key));
  add_many(place.changes, key, *filter, 1000);
  const std::uint64_t bytes_before = filter->byte_count();
  REQUIRE(place.changes.remove(key));
  CHECK(place.keys.memory_used() == empty_bytes);
  add_many(place.changes, key, *filter, 10'000);
  CHECK(filter->byte_count() > bytes_before);
  CHECK(place.keys.memory_used() == empty_bytes);
}

TEST_CASE("the limit of memory bounds what a filter is made with") {
  Place place;
  place.keys.set_memory_max(200'000);
  std::vector<std::string> items;
  for (int number = 0; number < 500'000; ++number) items.push_back(std::to_string(number));
  const std::vector<std::string_view> views(items.begin(), items.end());
  Outcomes outcomes;
  const DatabaseKey key{.database = 0, .key = "filter"};
  REQUIRE(
      writers::create(place.changes, key, {.options = {.capacity_given = false}, .items = views}, outcomes));
  CHECK(outcomes.front().added);
  CHECK(outcomes.back().refusal == cuckoo::Refusal::no_memory);
  CHECK(place.keys.memory_used() <= 200'000);
  // And what it is reserved for.
  const auto refused = writers::create(place.changes, {.database = 0, .key = "large"},
                                       {.options = {.capacity = 1'000'000'000}}, outcomes);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::memory_limit);
}

}  // namespace cuckoo_writer_test
