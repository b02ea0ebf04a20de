#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace object_commands_test {

using sepal::command::testing::World;

TEST_CASE("OBJECT answers what every filter has in common", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"OBJECT", "ENCODING", "k"}) == "$raw");
  CHECK(world.send({"object", "refcount", "k"}) == ":1");
  world.now += std::chrono::hours(1);
  CHECK(world.send({"OBJECT", "IDLETIME", "k"}) == ":0");
  CHECK(world.send({"OBJECT", "FREQ", "k"}).starts_with("-ERR An LFU maxmemory policy is not selected, "));
}

TEST_CASE("OBJECT answers null for a key that is not there", "[command]") {
  World world;
  world.send({"BF.ADD", "other", "a"});
  world.send({"PEXPIRE", "other", "1"});
  world.now += std::chrono::seconds(1);
  for (const char* subcommand : {"ENCODING", "FREQ", "IDLETIME", "REFCOUNT"}) {
    CHECK(world.send({"OBJECT", subcommand, "k"}) == "$null");
    CHECK(world.send({"OBJECT", subcommand, "other"}) == "$null");
  }
  CHECK(world.workers[0].key_misses.get() == 8);
  world.send({"HELLO", "3"});
  CHECK(world.send({"OBJECT", "ENCODING", "k"}) == "_");
}

TEST_CASE("OBJECT and MEMORY refuse other words", "[command]") {
  World world;
  CHECK(world.send({"OBJECT"}) == "-ERR wrong number of arguments for 'object' command");
  CHECK(world.send({"OBJECT", "FREQ"}) == "-ERR wrong number of arguments for 'object|freq' command");
  CHECK(world.send({"OBJECT", "FOO", "k"}) == "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.");
  CHECK(world.send({"MEMORY", "FOO"}) == "-ERR unknown subcommand 'FOO'. Try MEMORY HELP.");
  CHECK(world.send({"OBJECT", "HELP"}).starts_with("*[+OBJECT <subcommand> "));
  CHECK(world.send({"MEMORY", "HELP"}).starts_with("*[+MEMORY <subcommand> "));
}

TEST_CASE("the key of OBJECT and MEMORY USAGE is the word behind the subcommand", "[command]") {
  World world;
  CHECK(world.send({"COMMAND", "GETKEYS", "OBJECT", "FREQ", "k"}) == "*[$k]");
  CHECK(world.send({"COMMAND", "GETKEYSANDFLAGS", "MEMORY", "USAGE", "k", "SAMPLES", "5"}) ==
        "*[*[$k, *[+RO]]]");
  CHECK(world.send({"COMMAND", "INFO", "memory|usage"})
            .starts_with("*[*[$memory|usage, :-3, *[+readonly], :2, :2, :1, *[+@read, +@slow]"));
}

std::uint64_t number(const std::string& reply) {
  REQUIRE(reply.starts_with(":"));
  return std::stoull(reply.substr(1));
}

TEST_CASE("MEMORY USAGE counts the filter and the key", "[command]") {
  World world;
  const std::string long_key(1000, 'k');
  world.send({"BF.RESERVE", "k", "0.01", "100000"});
  world.send({"BF.RESERVE", long_key, "0.01", "100000"});
  const std::uint64_t filter_bytes = world.keyspace.find({.database = 0, .key = "k"})->byte_count();
  const std::uint64_t usage = number(world.send({"MEMORY", "USAGE", "k"}));
  CHECK(usage > filter_bytes);
  CHECK(usage < filter_bytes + 100);
  CHECK(number(world.send({"MEMORY", "USAGE", long_key})) >= filter_bytes + long_key.size());
  CHECK(usage <= world.keyspace.memory_used());
  CHECK(number(world.send({"MEMORY", "USAGE", "k", "samples", "0"})) == usage);
  CHECK(world.send({"MEMORY", "USAGE", "nokey"}) == "$null");
}

TEST_CASE("MEMORY USAGE checks SAMPLES before it looks at the key", "[command]") {
  World world;
  CHECK(world.send({"MEMORY", "USAGE", "k", "SAMPLES"}) == "-ERR syntax error");
  CHECK(world.send({"MEMORY", "USAGE", "k", "SAMPLES", "-1"}) == "-ERR syntax error");
  CHECK(world.send({"MEMORY", "USAGE", "k", "FOO", "1"}) == "-ERR syntax error");
  CHECK(world.send({"MEMORY", "USAGE", "k", "SAMPLES", "x"}) ==
        "-ERR value is not an integer or out of range");
}

TEST_CASE("MEMORY STATS answers the account of the keyspace", "[command]") {
  World world;
  world.control.used.resident_bytes = 1'000'000'000;
  world.send({"BF.RESERVE", "k", "0.01", "100000"});
  const std::string used = std::to_string(world.keyspace.memory_used());
  const std::string stats = world.send({"MEMORY", "STATS"});
  CHECK(stats.find("$total.allocated, :" + used + ",") != std::string::npos);
  CHECK(stats.find("$keys.count, :1, $keys.bytes-per-key, :" + used + ",") != std::string::npos);
  CHECK(stats.find("$dataset.percentage, $100,") != std::string::npos);
  world.send({"HELLO", "3"});
  const std::string map = world.send({"MEMORY", "STATS"});
  CHECK(map.find("$dataset.percentage=,100") != std::string::npos);
}

TEST_CASE("MEMORY STATS of a server without keys divides by nothing", "[command]") {
  World world;
  CHECK(world.send({"MEMORY", "STATS"}).find("$keys.count, :0, $keys.bytes-per-key, :0,") !=
        std::string::npos);
}

TEST_CASE("MEMORY DOCTOR says how far maxmemory is", "[command]") {
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

TEST_CASE("MEMORY PURGE asks for the memory; MALLOC-STATS answers as with an allocator without statistics",
          "[command]") {
  World world;
  CHECK(world.send({"MEMORY", "PURGE"}) == "+OK");
  CHECK(world.control.purges == 1);
  CHECK(world.send({"MEMORY", "MALLOC-STATS"}) == "$Stats not supported for the current allocator");
}

}  // namespace object_commands_test
