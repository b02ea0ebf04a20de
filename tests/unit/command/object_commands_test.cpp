#include "support/catch.hpp"
#include "support/values.hpp"
#include "world.hpp"

namespace object_commands_test {

using sepal::command::testing::World;

std::uint64_t number(const std::string& reply) {
  REQUIRE(reply.starts_with(":"));
  return std::stoull(reply.substr(1));
}

TEST_CASE("MEMORY USAGE counts the filter and the key") {
  World world;
  const std::string long_key(1000, 'k');
  world.send({"BF.RESERVE", "k", "0.01", "100000"});
  world.send({"BF.RESERVE", long_key, "0.01", "100000"});
  const std::uint64_t filter_bytes =
      sepal::test::filter_at(world.keyspace, {.database = 0, .key = "k"})->byte_count();
  const std::uint64_t usage = number(world.send({"MEMORY", "USAGE", "k"}));
  CHECK(usage > filter_bytes);
  CHECK(usage < filter_bytes + 100);
  CHECK(number(world.send({"MEMORY", "USAGE", long_key})) >= filter_bytes + long_key.size());
  CHECK(usage <= world.keyspace.memory_used());
  CHECK(number(world.send({"MEMORY", "USAGE", "k", "samples", "0"})) == usage);
  CHECK(world.send({"MEMORY", "USAGE", "nokey"}) == "$null");
}

TEST_CASE("MEMORY STATS answers the account of the keyspace") {
  World world;
  world.control.used.allocator = {.allocated_bytes = 1000, .active_bytes = 1500, .resident_bytes = 2000};
  world.send({"BF.RESERVE", "k", "0.01", "100000"});
  const std::string used = std::to_string(world.keyspace.memory_used());
  const std::string stats = world.send({"MEMORY", "STATS"});
  CHECK(stats.find("$total.allocated, :" + used + ",") != std::string::npos);
  CHECK(stats.find("$keys.count, :1, $keys.bytes-per-key, :" + used + ",") != std::string::npos);
  CHECK(stats.find("$dataset.percentage, $100,") != std::string::npos);
  CHECK(stats.find("$fragmentation, $2, $fragmentation.bytes, :1000]") != std::string::npos);
  world.send({"HELLO", "3"});
  const std::string map = world.send({"MEMORY", "STATS"});
  CHECK(map.find("$dataset.percentage=,100") != std::string::npos);
}

TEST_CASE("MEMORY DOCTOR says how far maxmemory is") {
  World world;
  world.send({"BF.RESERVE", "k", "0.01", "100000"});
  CHECK(world.send({"MEMORY", "DOCTOR"}).find("maxmemory is not set") != std::string::npos);
  const std::uint64_t used = world.keyspace.memory_used();
  world.keyspace.set_memory_max(2 * used);
  CHECK(world.send({"MEMORY", "DOCTOR"}).find("less than 90% of maxmemory") != std::string::npos);
  world.keyspace.set_memory_max(used + 1);
  CHECK(world.send({"MEMORY", "DOCTOR"}).find("more than 90% of maxmemory") != std::string::npos);
  world.keyspace.set_memory_max(used - 1);
  CHECK(world.send({"MEMORY", "DOCTOR"}).find("more than maxmemory: ") != std::string::npos);
  world.send({"HELLO", "3"});
  CHECK(world.send({"MEMORY", "DOCTOR"}).starts_with("=txt:Filters and keys take "));
}

}  // namespace object_commands_test
