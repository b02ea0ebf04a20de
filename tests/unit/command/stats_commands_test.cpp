#include <chrono>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace stats_commands_test {

using sepal::command::testing::World;
using namespace std::chrono_literals;

namespace {

// The first value behind a name in a readable reply of RESP3. A number with a fraction begins with a comma.
std::string field(const std::string& reply, const std::string& name) {
  const std::size_t at = reply.find("$" + name + "=");
  if (at == std::string::npos) return "no field " + name;
  const std::size_t begin = at + name.size() + 2;
  return reply.substr(begin, reply.find_first_of(",}", begin + 1) - begin);
}

sepal::keyspace::KeyspaceOptions of_two_workers() {
  sepal::keyspace::KeyspaceOptions options;
  options.worker_count = 2;
  return options;
}

}  // namespace

TEST_CASE("BF.STATS tells how full and how right a filter is", "[command][stats]") {
  World world;
  world.send({"HELLO", "3"});
  world.send({"BF.RESERVE", "k", "0.01", "1000"});
  for (int i = 0; i < 500; ++i) world.send({"BF.ADD", "k", std::to_string(i)});
  const std::string reply = world.send({"BF.STATS", "k"});
  CHECK(field(reply, "capacity") == ":1000");
  CHECK(field(reply, "items") == world.send({"BF.CARD", "k"}));
  CHECK(std::stod(field(reply, "items_estimated").substr(1)) > 450);
  CHECK(std::stod(field(reply, "items_estimated").substr(1)) < 550);
  CHECK(std::stod(field(reply, "fill").substr(1)) > 0.2);
  CHECK(std::stod(field(reply, "fill").substr(1)) < 0.4);
  CHECK(std::stod(field(reply, "false_positive_rate_now").substr(1)) > 0);
  CHECK(std::stod(field(reply, "false_positive_rate_now").substr(1)) < 0.005);
  CHECK(field(reply, "false_positive_rate_asked") == ",0.01");
  CHECK(field(reply, "bits_counted") == "$all");
  CHECK(field(reply, "expansion") == ":2");
  CHECK(reply.find("$layers=*[%{$layout=$blocked, $capacity=:1000, $items=:") != std::string::npos);
}

TEST_CASE("BF.STATS of an empty filter has no sign before its zeros", "[command][stats]") {
  World world;
  world.send({"HELLO", "3"});
  world.send({"BF.RESERVE", "k", "0.01", "1000"});
  const std::string reply = world.send({"BF.STATS", "k"});
  CHECK(field(reply, "false_positive_rate_now") == ",0");
  CHECK(reply.find("-0") == std::string::npos);
}

TEST_CASE("BF.STATS is a flat array in RESP2", "[command][stats]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"BF.STATS", "k"}).starts_with("*[$capacity, :100, $items, :1, $items_estimated, $"));
}

TEST_CASE("BF.STATS of a key without a filter is an error", "[command][stats]") {
  World world;
  CHECK(world.send({"BF.STATS", "k"}) == "-ERR not found");
  CHECK(world.send({"BF.STATS"}) == "-ERR wrong number of arguments for 'bf.stats' command");
  CHECK(world.send({"BF.STATS", "k", "x"}) == "-ERR wrong number of arguments for 'bf.stats' command");
}

TEST_CASE("BF.STATS of a string is an error", "[command][stats]") {
  World world;
  world.send({"SET", "s", "value"});
  CHECK(world.send({"BF.STATS", "s"}).starts_with("-WRONGTYPE "));
}

TEST_CASE("BF.STATS tells what clients did with a big filter", "[command][stats]") {
  World world(of_two_workers());
  world.send({"HELLO", "3"});
  world.send({"BF.RESERVE", "k", "0.01", "1000000", "NONSCALING"});
  std::string reply = world.send({"BF.STATS", "k"});
  CHECK(field(reply, "adds") == ":0");
  CHECK(field(reply, "lookups") == ":0");
  CHECK(field(reply, "last_change") == "_");
  CHECK(field(reply, "seconds_until_full") == "_");
  world.send({"BF.ADD", "k", "a"});
  world.send({"BF.MADD", "k", "a", "b", "c"});
  world.send({"BF.INSERT", "k", "ITEMS", "c", "d"});
  world.send({"BF.EXISTS", "k", "a"});
  world.send({"BF.MEXISTS", "k", "a", "b", "x"});
  world.steady_now += 10s;
  world.now += 10s;
  reply = world.send({"BF.STATS", "k"});
  CHECK(field(reply, "adds") == ":4");
  CHECK(field(reply, "lookups") == ":4");
  CHECK(field(reply, "hits") == ":3");
  CHECK(field(reply, "adds_per_second") == ",0.4");
  CHECK(field(reply, "seconds_until_full") == ",2499990");
  CHECK(field(reply, "last_change") == ":1700000000");
}

TEST_CASE("BF.STATS has no counts for a small filter", "[command][stats]") {
  World world(of_two_workers());
  world.send({"HELLO", "3"});
  world.send({"BF.ADD", "k", "a"});
  world.send({"BF.EXISTS", "k", "a"});
  const std::string reply = world.send({"BF.STATS", "k"});
  for (const char* name : {"adds", "lookups", "hits", "adds_per_second", "seconds_until_full", "last_change"})
    CHECK(field(reply, name) == "_");
  CHECK(world.workers[0].items_asked.get() == 1);
  CHECK(world.workers[0].items_found.get() == 1);
}

TEST_CASE("a full filter is full in 0 seconds", "[command][stats]") {
  World world;
  world.send({"HELLO", "3"});
  world.send({"BF.RESERVE", "k", "0.01", "3", "NONSCALING"});
  world.send({"BF.MADD", "k", "a", "b", "c", "d"});
  CHECK(field(world.send({"BF.STATS", "k"}), "seconds_until_full") == ",0");
}

TEST_CASE("BF.STATS tells the last save and the mirror", "[command][stats]") {
  World world;
  world.send({"HELLO", "3"});
  world.send({"BF.ADD", "s", "a"});
  world.send({"BF.ADD", "t", "b"});
  CHECK(field(world.send({"BF.STATS", "s"}), "last_save") == "_");
  CHECK(field(world.send({"BF.STATS", "s"}), "mirror") == "_");
  world.persistence.state.saves_done = 1;
  world.persistence.state.last_success = world.now - 60s;
  world.send({"BF.MIRROR", "s", "t"});
  world.send({"BF.ADD", "s", "c"});
  const std::string reply = world.send({"BF.STATS", "s"});
  CHECK(field(reply, "last_save") == ":1699999940");
  CHECK(reply.find("$mirror=%{$target=$t, $items_mirrored=:1, $state=$whole}") != std::string::npos);
  CHECK(field(world.send({"BF.STATS", "t"}), "mirror") == "_");
}

}  // namespace stats_commands_test
