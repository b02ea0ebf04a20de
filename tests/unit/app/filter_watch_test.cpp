#include "app/threads/filter_watch.hpp"

#include <sepal/command/server/filter_look.hpp>
#include <sepal/writers/bloom_writer.hpp>
#include <sepal/writers/cuckoo_writer.hpp>

#include <atomic>

#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/values.hpp"

namespace filter_watch_test {

namespace {

using namespace sepal;
using namespace sepal::app;
using namespace std::chrono_literals;

struct World {
  void create(const std::string& key, std::uint64_t capacity, std::uint32_t database = 0,
              std::uint32_t expansion = 2) {
    const GateClosed closed(gate);
    if (!sepal::writers::create(keyspace, {.database = database, .key = key},
                                {.capacity = capacity, .expansion = expansion}))
      FAIL("no filter");
  }
  void fill(const std::string& key, std::uint64_t count, std::uint32_t database = 0) {
    const GateEntered inside(gate, 0);
    auto* const filter = sepal::test::filter_at(keyspace, {.database = database, .key = key});
    for (std::uint64_t i = 0; filter->item_count() < count; ++i) {
      bool added = false;
      REQUIRE(
          filter->try_add(Fingerprint{0x9e3779b97f4a7c15 * (i + 1), 0xbf58476d1ce4e5b9 * (i + 1)}, added));
    }
  }
  test::FreeingHousekeeper housekeeper;
  keyspace::Keyspace keyspace{{}, housekeeper};
  Gate gate{2};
};

std::vector<std::string> keys_of(const FilterWatch& watch) {
  std::vector<std::string> keys;
  const auto seen = watch.seen();  // the loop does not keep a temporary pointer
  for (const command::SeenFilter& filter : seen->filters) keys.push_back(filter.key);
  return keys;
}

}  // namespace

TEST_CASE("the watch finds the largest filters of all databases, largest first") {
  World world;
  for (int i = 0; i < 1000; ++i) world.create("small" + std::to_string(i), 100);
  world.create("large", 100'000);
  world.create("larger", 200'000, 15);
  world.create("largest", 300'000, 3);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.filters_max = 3, .round_min = 1ms});
  REQUIRE(test::eventually([&] { return watch.seen()->filters.size() == 3; }));
  CHECK(keys_of(watch) == std::vector<std::string>{"largest", "larger", "large"});
  const command::SeenFilter largest = watch.seen()->filters.front();
  CHECK(largest.database == 3);
  CHECK(largest.capacity == 300'000);
  CHECK(largest.layer_count == 1);
  CHECK(largest.fill == 0);
}

TEST_CASE("the watch sees filters come, change and go") {
  World world;
  world.create("a", 1000);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.round_min = 1ms});
  REQUIRE(test::eventually([&] { return keys_of(watch) == std::vector<std::string>{"a"}; }));
  world.create("b", 2000);
  REQUIRE(test::eventually([&] { return keys_of(watch) == std::vector<std::string>{"b", "a"}; }));
  {
    const GateEntered inside(world.gate, 0);
    bool added = false;
    REQUIRE(sepal::test::filter_at(world.keyspace, {.database = 0, .key = "a"})
                ->try_add(Fingerprint{1, 2}, added));
  }
  REQUIRE(test::eventually([&] { return watch.seen()->filters.back().item_count == 1; }));
  CHECK(watch.seen()->filters.back().fill > 0);
  {
    const GateClosed closed(world.gate);
    world.keyspace.remove({.database = 0, .key = "b"});
  }
  REQUIRE(test::eventually([&] { return keys_of(watch) == std::vector<std::string>{"a"}; }));
}

TEST_CASE("the watch leaves out the other end of a mirror, if its key does not match") {
  World world;
  for (const char* const key : {"user:1", "user:2", "user:3", "secret"}) world.create(key, 1000);
  {
    const GateClosed closed(world.gate);
    REQUIRE(world.keyspace.begin_mirror({.database = 0, .source = "user:1", .target = "secret"}));
    REQUIRE(world.keyspace.begin_mirror({.database = 0, .source = "user:2", .target = "user:3"}));
  }
  const FilterWatch watch(world.gate, 1, world.keyspace, {.pattern = "user:*", .round_min = 1ms});
  REQUIRE(test::eventually([&] { return watch.seen()->filters.size() == 3; }));
  const auto seen = watch.seen();
  for (const command::SeenFilter& filter : seen->filters)
    CHECK(filter.mirror->other.has_value() == (filter.key != "user:1"));
  CHECK_FALSE(watch.look_at(0, "user:1")->seen.mirror->other);
}

TEST_CASE("the watch leaves out keys that do not match, and keys that are too long") {
  World world;
  world.create("user:1", 1000);
  world.create("other", 1000);
  world.create("user:" + std::string(command::shown_key_bytes_max - 5, 'x'), 500);
  world.create("user:" + std::string(command::shown_key_bytes_max - 4, 'x'), 500);
  world.create("user:\xff", 200);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.pattern = "user:*", .round_min = 1ms});
  REQUIRE(test::eventually([&] { return watch.seen()->filters.size() == 3; }));
  CHECK(keys_of(watch).front() == "user:1");
  CHECK(keys_of(watch).back() == "user:\\xff");
}

TEST_CASE("the watch sees that a filter which deletes has outgrown another one") {
  World world;
  const keyspace::DatabaseKey key{.database = 0, .key = "grows"};
  std::vector<cuckoo::Filter::AddOutcome> outcomes;
  {
    const GateClosed closed(world.gate);
    keyspace::Mutator changes(world.keyspace, nullptr);
    REQUIRE(sepal::writers::create(changes, key, {}, outcomes));
  }
  world.create("bloom", 20'000);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.filters_max = 1, .round_min = 1ms});
  REQUIRE(test::eventually([&] { return keys_of(watch) == std::vector<std::string>{"bloom"}; }));
  {
    const GateClosed closed(world.gate);
    keyspace::Mutator changes(world.keyspace, nullptr);
    auto* const filter = world.keyspace.find_as<cuckoo::Filter>(key);
    for (int i = 0; i < 100'000; ++i) {
      const std::string text = std::to_string(i);
      const std::string_view item = text;
      REQUIRE(
          sepal::writers::add(changes, key, *filter, {&item, 1}, cuckoo::Filter::AddIf::always, outcomes));
    }
  }
  REQUIRE(test::eventually([&] { return keys_of(watch) == std::vector<std::string>{"grows"}; }));
  CHECK(watch.seen()->filters.front().item_count == 100'000);
}

TEST_CASE("the thread of the watch ticks while it waits") {
  World world;
  std::atomic<int> ticks{0};
  const FilterWatch watch(
      world.gate, 1, world.keyspace,
      {.round_min = std::chrono::hours(1), .tick = [&] { ++ticks; }, .tick_interval = 1ms});
  REQUIRE(test::eventually([&] { return ticks > 3; }));
}

TEST_CASE("a watch that shows no filter counts them all the same") {
  World world;
  world.create("a", 1000);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.filters_max = 0, .round_min = 1ms});
  REQUIRE(test::eventually([&] { return watch.seen()->counts.total() == 1; }));
  CHECK(watch.seen()->filters.empty());
}

TEST_CASE("a small filter in trouble is counted, and shown before the largest") {
  World world;
  for (int i = 0; i < 1000; ++i) world.create("large" + std::to_string(i), 10'000);
  world.create("small", 10, 7, 0);
  world.create("secret", 10, 7, 0);
  world.fill("small", 10, 7);
  world.fill("secret", 10, 7);
  const FilterWatch watch(world.gate, 1, world.keyspace,
                          {.filters_max = 2, .pattern = "[ls]*[0-9l]", .round_min = 1ms});
  REQUIRE(test::eventually([&] { return watch.seen()->judged_at.has_value(); }));
  const auto seen = watch.seen();
  CHECK(seen->counts.total() == 1002);
  CHECK(seen->counts.in_trouble() == 2);
  CHECK(seen->counts.of(command::FilterState::full) == 2);
  CHECK(seen->counts.of(value::Kind::bloom) == 1002);
  REQUIRE(seen->filters.size() == 3);
  CHECK(seen->filters.front().key == "small");
  CHECK(seen->filters.front().refuses);
}

TEST_CASE("the worst of those in trouble are shown") {
  World world;
  for (int i = 0; i < 5; ++i) {
    world.create("filling" + std::to_string(i), 1000, 0, 0);
    world.fill("filling" + std::to_string(i), 900);
  }
  world.create("full", 10, 0, 0);
  world.fill("full", 10);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.filters_max = 1, .round_min = 1ms});
  REQUIRE(test::eventually([&] { return !watch.seen()->filters.empty(); }));
  CHECK(keys_of(watch).front() == "full");
  CHECK(watch.seen()->counts.of(command::FilterState::filling) == 5);
}

TEST_CASE("the watch looks at the filters again only after a change") {
  World world;
  world.create("a", 10, 0, 0);
  std::atomic<std::uint64_t> changes{1};
  const FilterWatch watch(world.gate, 1, world.keyspace,
                          {.round_min = 1ms, .value_changes = [&] { return changes.load(); }});
  REQUIRE(test::eventually([&] { return watch.seen()->judged_at.has_value(); }));
  const auto first = watch.seen();
  world.fill("a", 10);
  // Rounds go on: the list has the figures of this moment, and the count those of the walk.
  REQUIRE(test::eventually([&] { return watch.seen()->filters.front().item_count == 10; }));
  CHECK(watch.seen()->judged_at == first->judged_at);
  CHECK(watch.seen()->counts.in_trouble() == 0);
  ++changes;
  REQUIRE(test::eventually([&] { return watch.seen()->counts.in_trouble() == 1; }));
}

TEST_CASE("the watch looks at one filter, which has a history once it was seen") {
  World world;
  world.create("seen:a", 1000, 2);
  world.create("other", 1000);
  const FilterWatch watch(world.gate, 1, world.keyspace, {.pattern = "seen:*", .round_min = 1ms});
  REQUIRE(test::eventually([&] {
    const auto detail = watch.look_at(2, "seen:a");
    return detail && !detail->history.empty();
  }));
  const auto detail = watch.look_at(2, "seen:a");
  const auto& layers = std::get<std::vector<command::SeenBloomLayer>>(detail->layers);
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].plan.capacity == 1000);
  CHECK(layers[0].items == 0);
  CHECK(detail->history.front().fill == 0);
  CHECK_FALSE(watch.look_at(0, "seen:a"));
  CHECK_FALSE(watch.look_at(0, "other"));
  CHECK_FALSE(watch.look_at(2, "seen:" + std::string(command::shown_key_bytes_max, 'x')));
}

}  // namespace filter_watch_test
