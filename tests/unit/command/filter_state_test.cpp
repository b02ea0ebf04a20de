#include <sepal/command/server/filter_state.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <chrono>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace filter_state_test {

namespace {

using namespace sepal;
using namespace sepal::command;
using namespace std::chrono_literals;
using sepal::command::testing::World;

SeenFilter seen_in(World& world, std::string_view key) {
  const FilterLook look = look_at_filter(world.keyspace, {.key = key}, world.now, world.steady_now);
  REQUIRE(look);
  return look(1 << 20).seen;
}

std::string_view state_in(World& world, std::string_view key) {
  return name_of_state(state_of(seen_in(world, key)));
}

// Adds different items until one is refused, or `count_max` are in. Whether one was refused.
bool fill(World& world, const std::string& command, const std::string& key, int count_max) {
  for (int i = 0; i < count_max; ++i)
    if (world.send({command, key, "item:" + std::to_string(i)}).starts_with("-")) return true;
  return false;
}

}  // namespace

TEST_CASE("a filter that does not grow is filling, and full when it refuses items") {
  World world;
  for (const std::string family : {"BF", "CF"}) {
    const std::string key = family;
    family == "BF" ? world.send({"BF.RESERVE", key, "0.01", "100", "NONSCALING"})
                   : world.send({"CF.RESERVE", key, "100", "EXPANSION", "0"});
    CAPTURE(family);
    CHECK(state_in(world, key) == "fine");
    CHECK_FALSE(fill(world, family + ".ADD", key, 70));
    CHECK(state_in(world, key) == "fine");
    // Bloom filters may answer 0 for new items.
    for (int i = 0; seen_in(world, key).item_count < 80; ++i)
      world.send({family + ".ADD", key, "further:" + std::to_string(i)});
    CHECK(state_in(world, key) == "filling");
    CHECK(fill(world, family + ".ADD", key, 1000));
    CHECK(state_in(world, key) == "full");
  }
  world.send({"CF.DEL", "CF", "item:0"});
  CHECK(state_in(world, "CF") == "filling");
}

TEST_CASE("a cuckoo filter that grows is full when it has refused an item, until one is removed") {
  World world;
  // A rate so low leaves no bits to grow by.
  world.send({"CF.RESERVE", "c", "8", "ERROR", "1e-12"});
  CHECK(state_in(world, "c") == "fine");
  REQUIRE(fill(world, "CF.ADD", "c", 1000));
  CHECK(state_in(world, "c") == "full");
  CHECK(seen_in(world, "c").growth_limit == GrowthLimit::layers);
  world.send({"CF.DEL", "c", "item:0"});
  CHECK(state_in(world, "c") == "fine");
}

TEST_CASE("a filter that grows is filling when it has items for most of the room of all its layers") {
  World world({.layers_max = 20});
  world.send({"BF.RESERVE", "same", "0.01", "100", "EXPANSION", "1"});
  CHECK(seen_in(world, "same").capacity_max == 2000.0);
  for (int i = 0; seen_in(world, "same").item_count < 1599; ++i)
    world.send({"BF.ADD", "same", "item:" + std::to_string(i)});
  CHECK(state_in(world, "same") == "grown");
  for (int i = 0; seen_in(world, "same").item_count < 1600; ++i)
    world.send({"BF.ADD", "same", "further:" + std::to_string(i)});
  CHECK(state_in(world, "same") == "filling");
  CHECK(seen_in(world, "same").growth_limit == GrowthLimit::none);
  world.send({"BF.RESERVE", "twice", "0.01", "100"});
  CHECK(seen_in(world, "twice").capacity_max == 100.0 * ((1 << 20) - 1));
  world.send({"BF.RESERVE", "never", "0.01", "100", "NONSCALING"});
  CHECK(seen_in(world, "never").capacity_max == 100.0);
  world.send({"BF.RESERVE", "far", "0.01", "100", "EXPANSION", "32768"});
  CHECK_FALSE(seen_in(world, "far").capacity_max);
}

TEST_CASE("a filter that has all layers which it may have is full, though it would grow") {
  World world({.layers_max = 2});
  world.send({"BF.RESERVE", "b", "0.01", "10"});
  CHECK(fill(world, "BF.ADD", "b", 1000));
  CHECK(state_in(world, "b") == "full");
  CHECK(seen_in(world, "b").expansion != 0);
}

TEST_CASE(
    "a filter that has to grow and would not get the memory is filling, and full when it refuses items") {
  World world({.memory_max = 1 << 20});
  world.send({"BF.RESERVE", "b", "0.001", "50000", "EXPANSION", "32768"});
  CHECK_FALSE(fill(world, "BF.ADD", "b", 39'000));
  CHECK(state_in(world, "b") == "fine");
  CHECK(seen_in(world, "b").growth_limit == GrowthLimit::none);
  for (int i = 0; seen_in(world, "b").item_count < 40'000; ++i)
    world.send({"BF.ADD", "b", "further:" + std::to_string(i)});
  CHECK(state_in(world, "b") == "filling");
  CHECK(fill(world, "BF.ADD", "b", 60'000));
  CHECK(state_in(world, "b") == "full");
  CHECK(seen_in(world, "b").growth_limit == GrowthLimit::memory);
  world.keyspace.set_memory_max(std::uint64_t{16} << 30);
  CHECK(state_in(world, "b") == "fine");
}

TEST_CASE("a cuckoo filter that grows is full when it was refused memory, until there is some") {
  World world({.memory_max = 1 << 20});
  world.send({"CF.RESERVE", "c", "1000"});
  CHECK(state_in(world, "c") == "fine");
  CHECK(fill(world, "CF.ADD", "c", 1'000'000));
  const SeenFilter seen = seen_in(world, "c");
  CHECK(state_of(seen) == FilterState::full);
  CHECK(seen.growth_limit == GrowthLimit::memory);
  world.keyspace.set_memory_max(16 << 20);
  CHECK(state_in(world, "c") == "fine");
  world.keyspace.set_memory_max(1 << 20);
  CHECK(state_in(world, "c") == "full");
  world.keyspace.set_memory_max(16 << 20);
  CHECK_FALSE(fill(world, "CF.ADD", "c", 2'000'000));
  world.keyspace.set_memory_max(world.keyspace.memory_used());
  CHECK(state_in(world, "c") == "fine");  // it has got what it was refused
}

TEST_CASE("a cuckoo filter of RedisBloom is full when it has refused an item, until one is removed") {
  World world({.cuckoo_layers_max = 2});
  const auto load = [&](const std::string& key, std::uint16_t expansion, std::uint32_t layers) {
    const auto bytes = cuckoo::encode_redis_header({.item_count = 0,
                                                    .bucket_count = 32,
                                                    .delete_count = 0,
                                                    .layer_count = layers,
                                                    .bucket_slots = 2,
                                                    .kicks_max = 20,
                                                    .expansion = expansion});
    REQUIRE(world.send({"CF.LOADCHUNK", key, "1",
                        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())}) == "+OK");
  };
  load("r", 0, 1);
  CHECK(state_in(world, "r") == "fine");
  CHECK(fill(world, "CF.ADD", "r", 1000));
  const SeenFilter seen = seen_in(world, "r");
  CHECK(seen.item_count < seen.capacity);  // its last slots are not found
  CHECK(state_of(seen) == FilterState::full);
  REQUIRE(world.send({"CF.DEL", "r", "item:0"}) == ":1");
  CHECK(state_of(seen_in(world, "r")) != FilterState::full);

  load("layers", 1, 2);
  CHECK(world.send({"CF.ADD", "layers", "a"}).starts_with("-"));
  CHECK(state_in(world, "layers") == "full");
}

TEST_CASE("a filter that forgets and does not grow is full until its next generation begins") {
  World world;
  world.send({"BF.RESERVE", "w", "0.01", "40", "NONSCALING", "WINDOW", "40", "GENERATIONS", "4"});
  CHECK(state_in(world, "w") == "fine");
  CHECK(fill(world, "BF.ADD", "w", 1000));
  CHECK(state_in(world, "w") == "full");
  world.now += 10s;
  CHECK(state_in(world, "w") == "fine");
  world.send({"BF.RESERVE", "last", "0.01", "40", "LAST"});
  CHECK_FALSE(fill(world, "BF.ADD", "last", 1000));
  CHECK(state_in(world, "last") == "fine");
}

TEST_CASE(
    "a filter that forgets and has grown is full only when its newest layer is, and would get no memory") {
  World world;
  world.send({"BF.RESERVE", "w", "0.001", "4000", "WINDOW", "40", "EXPANSION", "4"});
  // The first layer has 1000 items for each of four generations, and the second one 4000.
  CHECK_FALSE(fill(world, "BF.ADD", "w", 1100));
  REQUIRE(seen_in(world, "w").layer_count == 2);
  world.keyspace.set_memory_max(world.keyspace.memory_used() + 1000);
  int added = 1100;
  const auto add = [&] { return world.send({"BF.ADD", "w", "item:" + std::to_string(added++)}); };
  while (seen_in(world, "w").item_count < 4500) REQUIRE_FALSE(add().starts_with("-"));
  CHECK(state_in(world, "w") == "fine");
  while (!add().starts_with("-")) REQUIRE(added < 10'000);
  CHECK(state_in(world, "w") == "full");
  CHECK(seen_in(world, "w").growth_limit == GrowthLimit::memory);
  world.now += 10s;
  CHECK(state_in(world, "w") == "fine");
}

TEST_CASE("the source of a broken mirror is in trouble, its target is not") {
  World world;
  world.send({"BF.RESERVE", "s", "0.01", "1000"});
  world.send({"BF.RESERVE", "t", "0.01", "10", "NONSCALING"});
  world.send({"BF.MIRROR", "s", "t"});
  CHECK(state_in(world, "s") == "fine");
  CHECK_FALSE(seen_in(world, "s").mirror->broken());
  CHECK(seen_in(world, "s").mirror->other == "t");
  CHECK_FALSE(fill(world, "BF.ADD", "s", 50));
  CHECK(state_in(world, "s") == "mirror_broken");
  CHECK(state_in(world, "t") == "full");
  CHECK_FALSE(seen_in(world, "t").mirror->is_source);
  world.send({"BF.MIRROR", "s", "OFF"});
  CHECK(state_in(world, "s") == "fine");
}

TEST_CASE("a filter errs too often from a margin above the rate asked for") {
  SeenFilter filter{.layer_count = 1, .false_positive_rate = 0.0149, .rate_asked = 0.01};
  CHECK(state_of(filter) == FilterState::fine);
  filter.false_positive_rate = 0.0151;
  CHECK(state_of(filter) == FilterState::overfilled);
  filter.kind = value::Kind::window;
  CHECK(state_of(filter) == FilterState::overfilled);
  filter.refuses = true;
  CHECK(state_of(filter) == FilterState::full);
  CHECK(state_of({.kind = value::Kind::redis_cuckoo, .false_positive_rate = 0.9}) == FilterState::fine);
}

TEST_CASE("a filter that cannot grow is filling if it will be full within an hour") {
  SeenFilter filter{
      .capacity = 1000, .item_count = 10, .growth_limit = GrowthLimit::expansion, .seconds_until_full = 3601};
  CHECK(state_of(filter) == FilterState::fine);
  filter.seconds_until_full = 3599;
  CHECK(state_of(filter) == FilterState::filling);
  filter.growth_limit = GrowthLimit::memory;
  CHECK(state_of(filter) == FilterState::filling);
  filter.growth_limit = GrowthLimit::none;
  CHECK(state_of(filter) == FilterState::fine);
}

TEST_CASE("a filter with many layers is no trouble") {
  SeenFilter filter{.layer_count = layers_few};
  CHECK(state_of(filter) == FilterState::fine);
  ++filter.layer_count;
  CHECK(state_of(filter) == FilterState::grown);
  CHECK_FALSE(is_trouble(FilterState::grown));
  CHECK(is_trouble(FilterState::filling));
}

}  // namespace filter_state_test
