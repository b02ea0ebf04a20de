#include <sepal/command/server/filter_look.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>

#include <cmath>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace filter_look_test {

namespace {

using namespace sepal;
using namespace sepal::command;
using sepal::command::testing::World;

constexpr std::uint64_t bits_max = 1 << 20;

FilterDetail look_at(World& world, std::string_view key) {
  const FilterLook look = look_at_filter(world.keyspace, {.key = key}, world.now, world.steady_now);
  REQUIRE(look);
  return look(bits_max);
}

void insert(World& world, const std::string& key, int first, int count, const std::string& command) {
  for (int i = first; i < first + count; ++i) world.send({command, key, "item:" + std::to_string(i)});
}

}  // namespace

TEST_CASE("a look at a filter that deletes tells its items, its room and its rate") {
  World world;
  world.send({"CF.RESERVE", "k", "1000", "ERROR", "0.001"});
  CHECK(look_at(world, "k").seen.false_positive_rate == 0);
  insert(world, "k", 0, 3000, "CF.ADD");
  insert(world, "k", 0, 10, "CF.DEL");
  const FilterDetail detail = look_at(world, "k");
  const SeenFilter& seen = detail.seen;
  CHECK(name_of_filter(seen.kind) == "cuckoo");
  CHECK(seen.item_count == 2990);
  CHECK(seen.removed_count == 10);
  CHECK(seen.rate_asked == 0.001);
  CHECK(seen.capacity >= seen.item_count);
  CHECK(seen.expansion == 1);
  CHECK((seen.fill > 0.3 && seen.fill < 0.95));
  CHECK((seen.false_positive_rate > 0 && seen.false_positive_rate <= 0.001));
  CHECK(seen.byte_count == world.keyspace.find_as<cuckoo::Filter>({.key = "k"})->byte_count());
  CHECK_FALSE(seen.item_estimate);
  CHECK_FALSE(seen.usage);
  const auto& layers = std::get<std::vector<cuckoo::Filter::LayerFigures>>(detail.layers);
  REQUIRE(layers.size() == seen.layer_count);
  std::uint64_t items = 0;
  for (const auto& layer : layers) items += layer.items;
  CHECK(items == seen.item_count);

  world.send({"CF.COMPACT", "k"});
  CHECK(look_at(world, "k").seen.removed_count == 0);
}

TEST_CASE("a filter that does not grow has room for what was asked for") {
  World world;
  world.send({"CF.RESERVE", "k", "100", "EXPANSION", "0"});
  insert(world, "k", 0, 100, "CF.ADD");
  const SeenFilter seen = look_at(world, "k").seen;
  CHECK(seen.expansion == 0);
  CHECK(seen.capacity == 100);
  CHECK(seen.item_count == 100);
}

TEST_CASE("many copies of an item do not raise the rate that is told") {
  World world;
  for (int i = 0; i < 5000; ++i) world.send({"CF.ADD", "k", "one"});
  const SeenFilter seen = look_at(world, "k").seen;
  CHECK(seen.item_count == 5000);
  CHECK(seen.false_positive_rate < 0.0001);
  CHECK(seen.fill < 0.01);
}

TEST_CASE("a look at a filter of RedisBloom tells what its slots say") {
  World world;
  // Two layers, one of four buckets and one of eight, of two slots each.
  const cuckoo::RedisHeader header{.item_count = 9,
                                   .bucket_count = 4,
                                   .delete_count = 3,
                                   .layer_count = 2,
                                   .bucket_slots = 2,
                                   .kicks_max = 20,
                                   .expansion = 2};
  const auto bytes = cuckoo::encode_redis_header(header);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  world.send({"CF.LOADCHUNK", "r", "1", text});
  CHECK(look_at(world, "r").seen.false_positive_rate == 0);
  world.send({"CF.LOADCHUNK", "r", "9", std::string(8, '\x07')});
  world.send({"CF.LOADCHUNK", "r", "13", std::string(4, '\x08')});
  const FilterDetail detail = look_at(world, "r");
  const SeenFilter& seen = detail.seen;
  CHECK(name_of_filter(seen.kind) == "redisbloom_cuckoo");
  CHECK(seen.capacity == 24);
  CHECK(seen.item_count == 9);
  CHECK(seen.removed_count == 3);
  CHECK(seen.layer_count == 2);
  CHECK(seen.fill == Approx(0.5));
  CHECK(seen.false_positive_rate == Approx(1 - std::pow(254.0 / 255, 4) * std::pow(1 - 0.25 / 255, 4)));
  CHECK_FALSE(seen.rate_asked);
  const auto& layers = std::get<std::vector<SeenRedisLayer>>(detail.layers);
  REQUIRE(layers.size() == 2);
  CHECK((layers[1].buckets == 8 && layers[1].slots == 16 && layers[1].fill == 0.25));
}

TEST_CASE("what is no filter is not looked at") {
  World world;
  world.send({"SET", "s", "text"});
  for (const char* key : {"s", "none"})
    CHECK_FALSE(look_at_filter(world.keyspace, {.key = key}, world.now, world.steady_now));
}

}  // namespace filter_look_test
