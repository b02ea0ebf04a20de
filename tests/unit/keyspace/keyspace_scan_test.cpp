#include <sepal/keyspace/keyspace.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/values.hpp"

namespace keyspace_scan_test {

namespace {

using namespace sepal;
using keyspace::Keyspace;
using sepal::bloom::FilterPtr;
using sepal::test::FreeingHousekeeper;

struct Fixture {
  FreeingHousekeeper housekeeper;
  Keyspace keys{{}, housekeeper};

  // All keys name one filter: a scan looks only at the keys.
  void fill(int key_count) {
    auto filter = bloom::Filter::create({.capacity = 1}, {.bytes_max = 1 << 20});
    REQUIRE(filter);
    bool all_put = true;
    for (int i = 0; i < key_count; ++i) all_put &= keys.put({.key = std::to_string(i)}, *filter).ok();
    REQUIRE(all_put);
  }
  std::vector<std::string> all_keys() const {
    std::vector<std::string> all;
    keys.for_each_key(0, [&](std::string_view key) { all.emplace_back(key); });
    return all;
  }
};

}  // namespace

TEST_CASE("a scan of an empty database ends at once") {
  const Fixture fixture;
  const auto step = fixture.keys.scan(0, 0, 10);
  CHECK(step.cursor == 0);
  CHECK(step.keys.empty());
  CHECK(fixture.all_keys().empty());
}

TEST_CASE("a scan visits every key once, in the order of for_each_key, in steps of any size") {
  Fixture fixture;
  fixture.fill(5000);
  const std::uint64_t count = GENERATE(0u, 1u, 2u, 10u, 4999u, 5000u, 5001u);
  std::vector<std::string> visited;
  std::uint64_t cursor = 0;
  do {
    const auto step = fixture.keys.scan(0, cursor, count);
    REQUIRE(step.keys.size() >= std::min<std::uint64_t>(1, count));
    REQUIRE(step.keys.size() <= count + 1);
    REQUIRE((step.cursor == 0 || step.cursor > cursor));
    visited.insert(visited.end(), step.keys.begin(), step.keys.end());
    cursor = step.cursor;
  } while (cursor != 0);
  CHECK(visited == fixture.all_keys());
  CHECK(std::set<std::string>(visited.begin(), visited.end()).size() == 5000);
}

TEST_CASE("cursors fit into a double, and any number is a valid cursor") {
  Fixture fixture;
  fixture.fill(3000);
  constexpr std::uint64_t exact_in_double = std::uint64_t{1} << 53;
  std::uint64_t cursor = 0;
  do {
    cursor = fixture.keys.scan(0, cursor, 7).cursor;
    REQUIRE(cursor < exact_in_double);
  } while (cursor != 0);
  for (const std::uint64_t strange : {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 48}) {
    CHECK(fixture.keys.scan(0, strange, 10).cursor == 0);
    CHECK(fixture.keys.scan(0, strange, 10).keys.empty());
  }
  const auto from_the_middle = fixture.keys.scan(0, std::uint64_t{1} << 47, ~std::uint64_t{0});
  CHECK(from_the_middle.cursor == 0);
  CHECK(from_the_middle.keys.size() > 1000);
  CHECK(from_the_middle.keys.size() < 2000);
}

TEST_CASE("there is no random key in an empty database, and the only key is drawn in a database of one") {
  Fixture fixture;
  CHECK_FALSE(fixture.keys.random_key(0, 1).has_value());
  fixture.fill(1);
  CHECK(fixture.keys.random_key(0, 1) == "0");
  CHECK_FALSE(fixture.keys.random_key(1, 1).has_value());
}

TEST_CASE("every key is drawn about equally often") {
  constexpr int key_count = 2000;
  constexpr std::uint64_t draws_per_key = 100;
  Fixture fixture;
  fixture.fill(key_count);
  std::map<std::string, std::uint64_t> drawn;
  for (std::uint64_t random = 0; random < key_count * draws_per_key; ++random)
    ++drawn[fixture.keys.random_key(0, random).value()];
  REQUIRE(drawn.size() == key_count);
  for (const auto& [key, count] : drawn) {
    CHECK(count > draws_per_key / 3);
    CHECK(count < draws_per_key * 3);
  }
}

TEST_CASE("random keys are drawn from a sparse table, too") {
  Fixture fixture;
  fixture.fill(20'000);
  for (int i = 3; i < 20'000; ++i) REQUIRE(fixture.keys.remove({.key = std::to_string(i)}));
  std::set<std::string> drawn;
  for (std::uint64_t random = 0; random < 200; ++random)
    drawn.insert(fixture.keys.random_key(0, random).value());
  CHECK(drawn == std::set<std::string>{"0", "1", "2"});
}

TEST_CASE("a million keys are created, found, scanned and flushed") {
  constexpr int key_count = 1'000'000;
  Fixture fixture;
  fixture.fill(key_count);
  REQUIRE(fixture.keys.size(0) == key_count);
  std::uint64_t visited = 0;
  std::uint64_t cursor = 0;
  do {
    const auto step = fixture.keys.scan(0, cursor, 1000);
    visited += step.keys.size();
    cursor = step.cursor;
  } while (cursor != 0);
  CHECK(visited == key_count);
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "999999"}) != nullptr);
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "1000000"}) == nullptr);
  fixture.keys.flush_all();
  CHECK(fixture.keys.total_size() == 0);
}

}  // namespace keyspace_scan_test
