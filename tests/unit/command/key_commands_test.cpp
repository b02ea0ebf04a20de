#include <set>

#include "support/catch.hpp"
#include "world.hpp"

namespace key_commands_test {

using sepal::command::testing::World;

TEST_CASE("DEL and UNLINK count the keys that were there", "[command]") {
  World world;
  for (const char* key : {"k1", "k2", "k3"}) world.send({"BF.ADD", key, "a"});
  CHECK(world.send({"DEL", "k1", "k2", "nokey", "k1"}) == ":2");
  CHECK(world.send({"UNLINK", "k3", "k3"}) == ":1");
  CHECK(world.send({"DBSIZE"}) == ":0");
}

TEST_CASE("EXISTS and TOUCH count every mention of an existing key", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"EXISTS", "k", "k", "nokey", "k"}) == ":3");
  CHECK(world.send({"TOUCH", "k", "nokey"}) == ":1");
  CHECK(world.workers[0].key_hits.get() == 4);
  CHECK(world.workers[0].key_misses.get() == 2);
}

TEST_CASE("TYPE answers the type of a filter, or none", "[command]") {
  World world;
  CHECK(world.send({"TYPE", "k"}) == "+none");
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"TYPE", "k"}) == "+MBbloom--");
}

TEST_CASE("RENAME replaces its target and RENAMENX does not", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  world.send({"BF.ADD", "l", "b"});
  CHECK(world.send({"RENAME", "nokey", "l"}) == "-ERR no such key");
  CHECK(world.send({"RENAMENX", "nokey", "l"}) == "-ERR no such key");
  CHECK(world.send({"RENAMENX", "k", "l"}) == ":0");
  CHECK(world.send({"BF.MEXISTS", "l", "a", "b"}) == "*[:0, :1]");
  CHECK(world.send({"RENAME", "k", "l"}) == "+OK");
  CHECK(world.send({"BF.MEXISTS", "l", "a", "b"}) == "*[:1, :0]");
  CHECK(world.send({"EXISTS", "k"}) == ":0");
  CHECK(world.send({"RENAMENX", "l", "m"}) == ":1");
  CHECK(world.send({"RENAME", "m", "m"}) == "+OK");
  CHECK(world.send({"RENAMENX", "m", "m"}) == ":0");
}

TEST_CASE("MOVE takes a filter and its deadline to a database where its key is free", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  world.send({"EXPIREAT", "k", "33177117420"});
  CHECK(world.send({"MOVE", "k", "0"}) == "-ERR source and destination objects are the same");
  CHECK(world.send({"MOVE", "k", "16"}) == "-ERR DB index is out of range");
  CHECK(world.send({"MOVE", "k", "1.0"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"MOVE", "nokey", "1"}) == ":0");
  CHECK(world.send({"MOVE", "k", "1"}) == ":1");
  CHECK(world.send({"EXISTS", "k"}) == ":0");
  world.send({"BF.ADD", "k", "b"});
  CHECK(world.send({"MOVE", "k", "1"}) == ":0");
  world.send({"SELECT", "1"});
  CHECK(world.send({"BF.MEXISTS", "k", "a", "b"}) == "*[:1, :0]");
  CHECK(world.send({"EXPIRETIME", "k"}) == ":33177117420");
}

TEST_CASE("MOVE treats a key past its deadline as free", "[command]") {
  World world;
  world.send({"SELECT", "1"});
  world.send({"BF.ADD", "k", "old"});
  world.send({"PEXPIRE", "k", "5"});
  world.send({"SELECT", "0"});
  world.send({"BF.ADD", "k", "new"});
  world.now += std::chrono::milliseconds(10);
  CHECK(world.send({"MOVE", "k", "1"}) == ":1");
  world.send({"SELECT", "1"});
  CHECK(world.send({"BF.MEXISTS", "k", "old", "new"}) == "*[:0, :1]");
}

TEST_CASE("SWAPDB gives each of two databases the keys of the other", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "zero"});
  world.send({"BF.ADD", "l", "zero"});
  world.send({"SELECT", "1"});
  world.send({"BF.ADD", "k", "one"});
  CHECK(world.send({"SWAPDB", "0", "16"}) == "-ERR DB index is out of range");
  CHECK(world.send({"SWAPDB", "x", "y"}) == "-ERR invalid first DB index");
  CHECK(world.send({"SWAPDB", "0", "y"}) == "-ERR invalid second DB index");
  CHECK(world.send({"SWAPDB", "0", "1"}) == "+OK");
  CHECK(world.send({"DBSIZE"}) == ":2");
  CHECK(world.send({"BF.MEXISTS", "k", "zero", "one"}) == "*[:1, :0]");
  CHECK(world.send({"SWAPDB", "1", "1"}) == "+OK");
  CHECK(world.send({"DBSIZE"}) == ":2");
  world.send({"SELECT", "0"});
  CHECK(world.send({"BF.MEXISTS", "k", "zero", "one"}) == "*[:0, :1]");
}

TEST_CASE("FLUSHDB empties one database, FLUSHALL all", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  world.send({"SELECT", "1"});
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"FLUSHDB", "NOW"}) == "-ERR syntax error");
  CHECK(world.send({"FLUSHALL", "ASYNC", "SYNC"}) == "-ERR syntax error");
  CHECK(world.send({"DBSIZE"}) == ":1");
  CHECK(world.send({"FLUSHDB", "async"}) == "+OK");
  CHECK(world.send({"DBSIZE"}) == ":0");
  world.send({"SELECT", "0"});
  CHECK(world.send({"DBSIZE"}) == ":1");
  CHECK(world.send({"FLUSHALL", "SYNC"}) == "+OK");
  CHECK(world.send({"DBSIZE"}) == ":0");
}

TEST_CASE("RANDOMKEY answers every key at some time, or null if there is none", "[command]") {
  World world;
  CHECK(world.send({"RANDOMKEY"}) == "$null");
  std::set<std::string> keys;
  for (int i = 0; i < 4; ++i) world.send({"BF.ADD", std::to_string(i), "a"});
  for (int i = 0; i < 200; ++i) keys.insert(world.send({"RANDOMKEY"}));
  CHECK(keys == std::set<std::string>{"$0", "$1", "$2", "$3"});
}

TEST_CASE("KEYS answers the keys of its database that match", "[command]") {
  World world;
  for (const char* key : {"a1", "a2", "b1"}) world.send({"BF.ADD", key, "x"});
  world.options.clients_memory_max = 1;
  for (const auto& words : {std::vector<std::string_view>{"KEYS", "a*"}, {"SCAN", "0"}})
    CHECK(world.send_words("a", words) ==
          "-ERR the names of these keys are longer than maxmemory-clients; ask for fewer of them at once");
  world.options.clients_memory_max = 1'000'000;
  const std::string two = world.send({"KEYS", "a*"});
  CHECK((two == "*[$a1, $a2]" || two == "*[$a2, $a1]"));
  CHECK(world.send({"KEYS", "b?"}) == "*[$b1]");
  CHECK(world.send({"KEYS", "nothing"}) == "*[]");
  world.send({"SELECT", "1"});
  CHECK(world.send({"KEYS", "*"}) == "*[]");
}

TEST_CASE("SCAN visits all keys once, for any step", "[command]") {
  World world;
  for (int i = 0; i < 100; ++i) world.send({"BF.ADD", "s" + std::to_string(i), "x"});
  std::multiset<std::string> seen;
  std::string cursor = "0";
  do {
    const std::string reply = world.send({"SCAN", cursor, "COUNT", "7"});
    const std::size_t comma = reply.find(", *[");
    REQUIRE(comma != std::string::npos);
    cursor = reply.substr(3, comma - 3);
    for (std::size_t at = reply.find('$', comma); at != std::string::npos; at = reply.find('$', at + 1))
      seen.insert(reply.substr(at + 1, reply.find_first_of(",]", at) - at - 1));
  } while (cursor != "0");
  CHECK(seen.size() == 100);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 100);
}

TEST_CASE("SCAN filters by pattern and type", "[command]") {
  World world;
  for (const char* key : {"a1", "b1"}) world.send({"BF.ADD", key, "x"});
  CHECK(world.send({"scan", "0", "count", "100", "match", "b*"}) == "*[$0, *[$b1]]");
  CHECK(world.send({"SCAN", "0", "TYPE", "mbBLOOM--", "MATCH", "a*"}) == "*[$0, *[$a1]]");
  CHECK(world.send({"SCAN", "0", "TYPE", "string"}) == "*[$0, *[]]");
}

TEST_CASE("SCAN says what is wrong with its words", "[command]") {
  World world;
  for (const char* cursor : {"x", "", " ", "-1", "1x", "18446744073709551616"})
    CHECK(world.send({"SCAN", cursor}) == "-ERR invalid cursor");
  CHECK(world.send({"SCAN", " 00"}) == "*[$0, *[]]");
  CHECK(world.send({"SCAN", "18446744073709551615"}).starts_with("*[$"));
  CHECK(world.send({"SCAN", "0", "COUNT", "0"}) == "-ERR syntax error");
  CHECK(world.send({"SCAN", "0", "COUNT", "x"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"SCAN", "0", "MATCH"}) == "-ERR syntax error");
  CHECK(world.send({"SCAN", "0", "FOO", "x"}) == "-ERR syntax error");
}

}  // namespace key_commands_test
