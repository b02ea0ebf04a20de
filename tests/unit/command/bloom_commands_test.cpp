#include <array>
#include <cstdio>
#include <limits>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace bloom_commands_test {

using sepal::command::Next;
using sepal::command::testing::World;

TEST_CASE("BF.ADD answers 1 for a new item and 0 for a known one, and creates with the defaults",
          "[command]") {
  World world;
  CHECK(world.send({"BF.ADD", "k", "a"}) == ":1");
  CHECK(world.send({"BF.ADD", "k", "a"}) == ":0");
  CHECK(world.send({"BF.INFO", "k"}).starts_with("*[+Capacity, :100, +Size, :"));
  CHECK(world.send({"BF.CARD", "k"}) == ":1");
  CHECK(world.send({"BF.CARD", "other"}) == ":0");
}

TEST_CASE("BF replies are booleans and maps in RESP3", "[command]") {
  World world;
  world.send({"HELLO", "3"});
  CHECK(world.send({"BF.ADD", "k", "a"}) == "#t");
  CHECK(world.send({"BF.MADD", "k", "a", "b"}) == "*[#f, #t]");
  CHECK(world.send({"BF.EXISTS", "k", "x"}) == "#f");
  CHECK(world.send({"BF.MEXISTS", "k", "a", "x"}) == "*[#t, #f]");
  CHECK(world.send({"BF.INFO", "k", "items"}) == "%{+Number of items inserted=:2}");
  CHECK(world.send({"BF.INFO", "k"}).starts_with("%{+Capacity=:100, +Size=:"));
}

TEST_CASE("adding to a filter with room does not close the gate", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  REQUIRE(world.alone_runs == 1);
  world.send({"BF.ADD", "k", "b"});
  world.send({"BF.MADD", "k", "c", "d"});
  world.send({"BF.INSERT", "k", "ITEMS", "e"});
  CHECK(world.alone_runs == 1);
}

TEST_CASE("a full filter refuses new items and finds old ones without closing the gate", "[command]") {
  World world;
  world.send({"BF.RESERVE", "k", "0.001", "2", "NONSCALING"});
  world.send({"BF.MADD", "k", "a", "b"});
  const int alone_runs = world.alone_runs;
  CHECK(world.send({"BF.ADD", "k", "c"}) == "-ERR non scaling filter is full");
  CHECK(world.send({"BF.ADD", "k", "a"}) == ":0");
  CHECK(world.send({"BF.MADD", "k", "a", "c", "b"}) == "*[:0, -ERR non scaling filter is full]");
  CHECK(world.send({"BF.INSERT", "k", "ITEMS", "b", "a"}) == "*[:0, :0]");
  CHECK(world.alone_runs == alone_runs);
  CHECK(world.send({"BF.CARD", "k"}) == ":2");
}

TEST_CASE("a filter gives the same answers when it is full as when it becomes full", "[command]") {
  for (const bool resp3 : {false, true}) {
    World world;
    world.send({"HELLO", resp3 ? "3" : "2"});
    world.send({"BF.RESERVE", "k", "0.001", "2", "NONSCALING"});
    CHECK(world.send({"BF.MADD", "k", "a", "b", "a", "c", "d"}) ==
          (resp3 ? "*[#t, #t, #f, -ERR non scaling filter is full]"
                 : "*[:1, :1, :0, -ERR non scaling filter is full]"));
    CHECK(world.send({"BF.MADD", "k", "a", "b", "a", "c", "d"}) ==
          (resp3 ? "*[#f, #f, #f, -ERR non scaling filter is full]"
                 : "*[:0, :0, :0, -ERR non scaling filter is full]"));
    CHECK(world.send({"BF.INSERT", "k", "NOCREATE", "ITEMS", "c", "c"}) ==
          "*[-ERR non scaling filter is full]");
    CHECK(world.send({"BF.ADD", "k", "b"}) == (resp3 ? "#f" : ":0"));
    world.keyspace.set_memory_max(1);
    CHECK(world.send({"BF.ADD", "k", "b"}).starts_with("-OOM"));
    CHECK(world.send({"BF.RESERVE", "k", "0.01", "100"}).starts_with("-OOM"));
  }
}

TEST_CASE("BF.RESERVE closes the gate only to create", "[command]") {
  World world;
  CHECK(world.send({"BF.RESERVE", "k", "2", "100"}).starts_with("-ERR"));
  CHECK(world.alone_runs == 0);
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "100"}) == "+OK");
  CHECK(world.alone_runs == 1);
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "100"}) == "-ERR item exists");
  CHECK(world.alone_runs == 1);
}

TEST_CASE("look-ups of a missing key answer no for every item", "[command]") {
  World world;
  CHECK(world.send({"BF.EXISTS", "k", "a"}) == ":0");
  CHECK(world.send({"BF.MEXISTS", "k", "a", "b"}) == "*[:0, :0]");
  CHECK(world.workers[0].key_misses.get() == 2);
  CHECK(world.workers[0].key_hits.get() == 0);
}

TEST_CASE("a request with many more items than the scratch memory holds is answered completely",
          "[command]") {
  World world;
  std::vector<std::string> items;
  for (int i = 0; i < 1000; ++i) items.push_back("item" + std::to_string(i));
  world.send({"BF.RESERVE", "k", "0.000001", "1000"});
  std::vector<std::string_view> words{"BF.MADD", "k"};
  words.insert(words.end(), items.begin(), items.end());
  std::string ones = "*[:1";
  for (int i = 1; i < 1000; ++i) ones += ", :1";
  CHECK(world.send_words("a", words) == ones + "]");
  words[0] = "BF.MEXISTS";
  CHECK(world.send_words("a", words) == ones + "]");
  CHECK(world.send({"BF.CARD", "k"}) == ":1000");
  CHECK(world.workers[0].items_added.get() == 1000);
}

TEST_CASE("the new items of a request are counted, for any number of items", "[command]") {
  World world;
  world.send({"BF.RESERVE", "k", "0.000001", "1000"});
  std::uint64_t expected = 0;
  for (std::size_t count = 1; count <= 40; ++count) {
    std::vector<std::string> items;
    for (std::size_t i = 0; i < count; ++i)
      items.push_back(i % 3 == 0 ? "known" : std::to_string(count) + ":" + std::to_string(i));
    std::vector<std::string_view> words{"BF.MADD", "k"};
    words.insert(words.end(), items.begin(), items.end());
    world.send_words("a", words);
    expected += count - (count + 2) / 3 + (count == 1 ? 1 : 0);
    CHECK(world.workers[0].items_added.get() == expected);
  }
}

TEST_CASE("a filter grows within one request when it must", "[command]") {
  World world;
  world.send({"BF.RESERVE", "k", "1e-10", "2", "EXPANSION", "1"});
  CHECK(world.send({"BF.MADD", "k", "a", "b", "c", "d", "e"}) == "*[:1, :1, :1, :1, :1]");
  CHECK(world.send({"BF.INFO", "k", "FILTERS"}) == "*[:3]");
  CHECK(world.send({"BF.INFO", "k", "CAPACITY"}) == "*[:6]");
}

TEST_CASE("a full filter that does not scale cuts the array after the error", "[command]") {
  World world;
  world.send({"BF.RESERVE", "k", "1e-10", "2", "NONSCALING"});
  CHECK(world.send({"BF.MADD", "k", "a", "a", "b", "a", "c", "a", "b"}) ==
        "*[:1, :0, :1, :0, -ERR non scaling filter is full]");
  CHECK(world.send({"BF.ADD", "k", "c"}) == "-ERR non scaling filter is full");
  CHECK(world.send({"BF.ADD", "k", "b"}) == ":0");
  CHECK(world.send({"BF.INFO", "k", "EXPANSION"}) == "*[$null]");
  CHECK(world.send({"BF.CARD", "k"}) == ":2");
}

TEST_CASE("a filter with the largest number of layers refuses item by item, and the array goes on",
          "[command]") {
  World world({.layers_max = 1});
  world.send({"BF.RESERVE", "k", "1e-10", "1"});
  CHECK(world.send({"BF.ADD", "k", "a"}) == ":1");
  const std::string refused =
      "-ERR problem inserting into filter: it has as many layers as layers_max allows (1)";
  CHECK(world.send({"BF.ADD", "k", "b"}) == refused);
  CHECK(world.send({"BF.MADD", "k", "b", "a", "c"}) == "*[" + refused + ", :0, " + refused + "]");
  CHECK(world.workers[0].error_replies.get() == 3);
}

TEST_CASE("BF.RESERVE accepts any capacity that fits in memory, and refuses others without allocating",
          "[command]") {
  World world({.machine_bytes = 1ull << 30});
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "18446744073709551615"}) ==
        "-ERR Insufficient memory to create filter");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "18446744073709551616"}) == "-ERR bad capacity");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "1000000000000"}) ==
        "-ERR Insufficient memory to create filter");
  CHECK(world.send({"EXISTS", "k"}) == ":0");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "1"}) == "+OK");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "1"}) == "-ERR item exists");
}

TEST_CASE("BF.RESERVE reads its options by position, and finds none in the key", "[command]") {
  World world;
  CHECK(world.send({"BF.RESERVE", "NONSCALING", "0.01", "10"}) == "+OK");
  CHECK(world.send({"BF.INFO", "NONSCALING", "EXPANSION"}) == "*[:2]");
  CHECK(world.send({"BF.RESERVE", "EXPANSION", "0.01", "10", "EXPANSION", "4"}) == "+OK");
  CHECK(world.send({"BF.INFO", "EXPANSION", "EXPANSION"}) == "*[:4]");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "10", "FOO"}) == "-ERR unknown argument received");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "10", "EXPANSION", "3", "FOO"}) ==
        "-ERR unknown argument received");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "10", "NONSCALING", "NONSCALING"}) == "+OK");
  CHECK(world.send({"BF.RESERVE", "l", "0.01", "10", "EXPANSION", "1", "NONSCALING", "x"}) ==
        "-ERR wrong number of arguments for 'bf.reserve' command");
}

TEST_CASE("BF.RESERVE checks the rate, then the capacity, the options and the key", "[command]") {
  World world;
  world.send({"BF.RESERVE", "k", "0.01", "10"});
  CHECK(world.send({"BF.RESERVE", "k", "x", "y", "EXPANSION"}) == "-ERR bad error rate");
  CHECK(world.send({"BF.RESERVE", "k", "1", "y"}) ==
        "-ERR error rate must be in the range (0.000000, 1.000000)");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "y", "EXPANSION"}) == "-ERR bad capacity");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "0", "EXPANSION"}) ==
        "-ERR capacity must be in the range [1, 18446744073709551615]");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "1", "EXPANSION"}) == "-ERR no expansion");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "1", "EXPANSION", "x"}) == "-ERR bad expansion");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "1", "EXPANSION", "32769"}) ==
        "-ERR expansion must be in the range [0, 32768]");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "1", "NONSCALING", "EXPANSION", "1"}) ==
        "-Nonscaling filters cannot expand");
  CHECK(world.send({"BF.RESERVE", "k", "0.1", "1", "EXPANSION", "32768"}) == "-ERR item exists");
}

TEST_CASE("BF.INSERT takes whole option words and reports the first bad one from the left", "[command]") {
  World world;
  CHECK(world.send({"BF.INSERT", "k", "capacity", "50", "Error", "0.001", "EXPANSION", "4", "ITEMS", "a",
                    "b"}) == "*[:1, :1]");
  CHECK(world.send({"BF.INFO", "k", "CAPACITY"}) == "*[:50]");
  CHECK(world.send({"BF.INSERT", "l", "ERROR", "x", "CAPACITY", "y", "ITEMS", "a"}) == "-Bad error rate");
  CHECK(world.send({"BF.INSERT", "l", "CAPACITY", "0", "ERROR", "x", "ITEMS", "a"}) == "-Bad capacity");
  CHECK(world.send({"BF.INSERT", "l", "EXPANSION", "-1", "ITEMS", "a"}) == "-Bad expansion");
  CHECK(world.send({"BF.INSERT", "l", "I", "a"}) == "-Unknown argument received");
  CHECK(world.send({"BF.INSERT", "l", "CAP", "5", "ITEMS", "a"}) == "-Unknown argument received");
  CHECK(world.send({"BF.INSERT", "l", "NOCREATE", "CAPACITY"}) ==
        "-ERR wrong number of arguments for 'bf.insert' command");
  CHECK(world.send({"BF.INSERT", "l", "CAPACITY", "5", "ITEMS"}) ==
        "-ERR wrong number of arguments for 'bf.insert' command");
  CHECK(world.send({"BF.INSERT", "l", "NOCREATE", "ITEMS", "a"}) == "-ERR not found");
  CHECK(world.send({"BF.INSERT", "l", "NONSCALING", "EXPANSION", "2", "ITEMS", "a"}) == "*[:1]");
  CHECK(world.send({"BF.INFO", "l", "EXPANSION"}) == "*[$null]");
}

TEST_CASE("BF.INSERT NOCREATE of a missing key is refused without closing the gate", "[command]") {
  World world;
  CHECK(world.send({"BF.INSERT", "k", "NOCREATE", "ITEMS", "a"}) == "-ERR not found");
  CHECK(world.alone_runs == 0);
}

TEST_CASE("BF.INFO knows its fields in any case and no others", "[command]") {
  World world;
  CHECK(world.send({"BF.INFO", "k", "foo"}) == "-ERR not found");
  world.send({"BF.RESERVE", "k", "0.01", "7"});
  CHECK(world.send({"BF.INFO", "k", "CaPaCiTy"}) == "*[:7]");
  CHECK(world.send({"BF.INFO", "k", "CAPACITYX"}) == "-Invalid information value");
  CHECK(world.send({"BF.INFO", "k", "CAPACITY", "SIZE"}) ==
        "-ERR wrong number of arguments for 'bf.info' command");
}

TEST_CASE("BF.DEBUG answers the items, and a line for each layer with its own figures", "[command]") {
  World world;
  CHECK(world.send({"BF.DEBUG", "k"}) == "-ERR not found");
  CHECK(world.send({"BF.DEBUG"}) == "-ERR wrong number of arguments for 'bf.debug' command");
  CHECK(world.send({"BF.DEBUG", "k", "x"}) == "-ERR wrong number of arguments for 'bf.debug' command");
  world.send({"BF.RESERVE", "k", "0.0001", "20"});
  for (int i = 0; i < 50; ++i) world.send({"BF.ADD", "k", std::to_string(i)});
  const auto* const filter = world.keyspace.find({.database = 0, .key = "k"});
  REQUIRE(filter != nullptr);
  REQUIRE(filter->layer_count() == 2);
  const auto line = [&](std::uint32_t index, const std::string& counts) {
    const auto plan = filter->layer(index).plan();
    std::array<char, 64> ratio{};
    std::snprintf(ratio.data(), ratio.size(), " ratio:%g", plan.error_rate);
    return "$bytes:" + std::to_string(plan.byte_count()) + " bits:" + std::to_string(plan.bit_count()) +
           " hashes:" + std::to_string(plan.probe_count) + " hashwidth:128 " + counts + ratio.data();
  };
  CHECK(world.send({"BF.DEBUG", "k"}) ==
        "*[$size:50, " + line(0, "capacity:20 size:20") + ", " + line(1, "capacity:40 size:30") + "]");
  world.send({"HELLO", "3"});
  CHECK(world.send({"BF.DEBUG", "k"}).starts_with("*[$size:50, $bytes:"));
}

TEST_CASE("the key that exceeds the limit of keys gets an error that names the limit", "[command]") {
  World world({.keys_max = 1});
  CHECK(world.send({"BF.ADD", "k", "a"}) == ":1");
  CHECK(world.send({"BF.ADD", "l", "a"}) == "-ERR the server holds as many keys as its limit allows");
  CHECK(world.send({"BF.ADD", "k", "b"}) == ":1");
}

TEST_CASE("above maxmemory adds are refused and look-ups go on", "[command]") {
  World world;
  world.send({"BF.ADD", "k", "a"});
  world.keyspace.set_memory_max(1);
  CHECK(world.send({"BF.ADD", "k", "b"}) == "-OOM command not allowed when used memory > 'maxmemory'.");
  CHECK(world.send({"BF.RESERVE", "x", "0.01", "1"}) ==
        "-OOM command not allowed when used memory > 'maxmemory'.");
  CHECK(world.send({"BF.EXISTS", "k", "a"}) == ":1");
  CHECK(world.send({"DEL", "k"}) == ":1");
}

}  // namespace bloom_commands_test
