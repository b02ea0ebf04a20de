#include <sepal/resp/request_parser.hpp>

#include "support/catch.hpp"
#include "world.hpp"

using sepal::Errc;
using sepal::fail;
using sepal::command::testing::World;

namespace {

std::string refused(std::string_view name, std::string_view why) {
  return "-ERR CONFIG SET failed (possibly related to argument '" + std::string(name) + "') - " +
         std::string(why);
}

}  // namespace

TEST_CASE("CONFIG GET takes names in any case, patterns, and each parameter once", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "GET", "MaxMemory"}) == "*[$MaxMemory, $0]");
  CHECK(world.send({"CONFIG", "GET", "SLOWLOG-*"}) ==
        "*[$slowlog-log-slower-than, $10000, $slowlog-max-len, $128]");
  CHECK(world.send({"CONFIG", "GET", "timeout", "TIMEOUT", "time*"}) == "*[$timeout, $0]");
  CHECK(world.send({"CONFIG", "GET", "nosuch"}) == "*[]");
  world.send({"HELLO", "3"});
  CHECK(world.send({"CONFIG", "GET", "hz"}) == "%{$hz=$10}");
}

TEST_CASE("what CONFIG SET changes is changed where it counts", "[command]") {
  World world;
  CHECK(world.send({"CONFIG",
                    "SET",
                    "maxmemory",
                    "1mb",
                    "timeout",
                    "300",
                    "tcp-keepalive",
                    "0",
                    "maxclients",
                    "50",
                    "proto-max-bulk-len",
                    "2mb",
                    "client-query-buffer-limit",
                    "3mb",
                    "requirepass",
                    "sesame",
                    "loglevel",
                    "verbose",
                    "save",
                    "900 1",
                    "bf-error-rate",
                    "0.001",
                    "bf-initial-size",
                    "1000",
                    "bf-expansion-factor",
                    "4"}) == "+OK");
  CHECK(world.keyspace.options().memory_max == 1 << 20);
  CHECK(world.options.idle_timeout == std::chrono::seconds(300));
  CHECK(world.options.tcp_keepalive == std::chrono::seconds(0));
  CHECK(world.options.clients_max == 50);
  CHECK(world.options.parser.bulk_bytes_max == 2 << 20);
  CHECK(world.options.parser.request_bytes_max == 3 << 20);
  CHECK(world.options.password == "sesame");
  CHECK(world.options.log_level == "debug");
  CHECK(world.options.save_interval == std::chrono::seconds(900));
  REQUIRE(world.control.announced.size() == 1);
  CHECK(world.control.announced[0].clients_max == 50);
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"BF.INFO", "k", "CAPACITY"}) == "*[:1000]");
  CHECK(world.send({"BF.INFO", "k", "EXPANSION"}) == "*[:4]");
}

TEST_CASE("CONFIG GET gives back what CONFIG SET took", "[command]") {
  World world;
  const std::pair<std::string_view, std::string_view> values[] = {{"maxmemory", "104857600"},
                                                                  {"timeout", "7"},
                                                                  {"tcp-keepalive", "60"},
                                                                  {"maxclients", "1"},
                                                                  {"requirepass", "s"},
                                                                  {"loglevel", "warning"},
                                                                  {"save", "60 1"},
                                                                  {"save-interval", "30"},
                                                                  {"save-bandwidth", "1048576"},
                                                                  {"bf-error-rate", "1e-06"},
                                                                  {"bf-initial-size", "5"},
                                                                  {"bf-expansion-factor", "0"},
                                                                  {"hz", "20"},
                                                                  {"journal", "always"},
                                                                  {"auto-aof-rewrite-percentage", "50"},
                                                                  {"auto-aof-rewrite-min-size", "1048576"},
                                                                  {"slowlog-log-slower-than", "-1"},
                                                                  {"lazyfree-lazy-user-del", "yes"}};
  for (const auto& [name, value] : values) {
    CHECK(world.send({"CONFIG", "SET", name, value}) == "+OK");
    CHECK(world.send({"CONFIG", "GET", name}) ==
          "*[$" + std::string(name) + ", $" + std::string(value) + "]");
  }
  CHECK(world.send({"CONFIG", "SET", "save", ""}) == "+OK");
  CHECK(world.send({"CONFIG", "GET", "save"}) == "*[$save, $]");
}

TEST_CASE("the journal is one parameter here and two in the reference", "[command]") {
  World world;
  const auto set = [&](std::string_view name, std::string_view value) {
    return world.send({"CONFIG", "SET", name, value});
  };
  const auto shown = [&] {
    std::string all;
    for (const std::string_view name : {"journal", "appendonly", "appendfsync"}) {
      const std::string reply = world.send({"CONFIG", "GET", name});
      all += reply.substr(reply.rfind('$') + 1);
    }
    return all;
  };
  CHECK(shown() == "everysec]yes]everysec]");
  CHECK(set("appendfsync", "always") == "+OK");
  CHECK(shown() == "always]yes]always]");
  // What it was comes back.
  CHECK(set("appendonly", "no") == "+OK");
  CHECK(shown() == "off]no]always]");
  CHECK(set("appendonly", "YES") == "+OK");
  CHECK(shown() == "always]yes]always]");
  CHECK(set("journal", "OFF") == "+OK");
  CHECK(set("appendfsync", "no") == "+OK");
  CHECK(shown() == "off]no]everysec]");
  CHECK(set("journal", "everysec") == "+OK");
  CHECK(shown() == "everysec]yes]everysec]");

  CHECK(set("appendonly", "maybe") == refused("appendonly", "argument must be 'yes' or 'no'"));
  CHECK(set("appendfsync", "often") ==
        refused("appendfsync", "argument(s) must be one of the following: everysec, always, no"));
  CHECK(set("journal", "yes") ==
        refused("journal", "argument(s) must be one of the following: off, everysec, always"));
  CHECK(world.control.announced.size() == 6);
}

TEST_CASE("CONFIG SET is all or nothing", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "hz", "x"}) ==
        refused("hz", "argument couldn't be parsed into an integer"));
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "nosuch", "x"}) ==
        "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'");
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "timeout", "20"}) ==
        refused("timeout", "duplicate parameter"));
  CHECK(world.send({"CONFIG", "SET", "timeout", "10", "hz"}) == "-ERR syntax error");
  CHECK(world.send({"CONFIG", "GET", "timeout"}) == "*[$timeout, $0]");
  CHECK(world.control.announced.empty());
}

TEST_CASE("values out of range are refused at the limit plus one", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "timeout", "2147483647"}) == "+OK");
  CHECK(world.send({"CONFIG", "SET", "timeout", "2147483648"}) ==
        refused("timeout", "argument must be between 0 and 2147483647 inclusive"));
  CHECK(world.send({"CONFIG", "SET", "maxclients", "0"}) ==
        refused("maxclients", "argument must be between 1 and 1000000 inclusive"));
  CHECK(world.send({"CONFIG", "SET", "proto-max-bulk-len", "1048575"}) ==
        refused("proto-max-bulk-len", "argument must be between 1048576 and 1099511627776 inclusive"));
  CHECK(world.send({"CONFIG", "SET", "bf-error-rate", "1"}) ==
        refused("bf-error-rate", "argument must be between 0 and 1 exclusive"));
  CHECK(world.send({"CONFIG", "SET", "bf-expansion-factor", "32769"}) ==
        refused("bf-expansion-factor", "argument must be between 0 and 32768 inclusive"));
  const std::string longest(sepal::resp::unauthenticated_bulk_bytes_max, 'x');
  CHECK(world.send({"CONFIG", "SET", "requirepass", longest + "x"}).starts_with(refused("requirepass", "")));
  CHECK(world.send({"CONFIG", "SET", "requirepass", longest}) == "+OK");
}

TEST_CASE("what Sepal does not do is not pretended", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}) ==
        refused("maxmemory-policy", "can't set immutable config"));
  CHECK(world.send({"CONFIG", "SET", "maxmemory-policy", "nosuch"}) ==
        refused("maxmemory-policy",
                "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, "
                "volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction"));
  CHECK(world.send({"CONFIG", "SET", "notify-keyspace-events", "KEA"}) ==
        refused("notify-keyspace-events", "can't set immutable config"));
  CHECK(world.send({"CONFIG", "SET", "databases", "16"}) ==
        refused("databases", "can't set immutable config"));
  CHECK(world.send({"CONFIG", "SET", "dir", "/tmp"}) == refused("dir", "can't set protected config"));
  CHECK(world.send({"CONFIG", "SET", "loglevel", "loud"})
            .starts_with(refused("loglevel", "argument(s) must be one of the following: debug, ")));
}

TEST_CASE("setting a fixed parameter to its one value is no error", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "noeviction",
                    "notify-keyspace-events", ""}) == "+OK");
}

TEST_CASE("CONFIG REWRITE is refused without a file and else answered when it is written", "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "REWRITE"}) == "-ERR The server is running without a config file");
  CHECK(world.control.rewriting_for.empty());
  world.control.has_config_file = true;
  CHECK(world.send({"CONFIG", "REWRITE"}).empty());
  CHECK(world.control.rewriting_for == std::vector<std::uint64_t>{world.connection("a").client.id});
}

TEST_CASE("CONFIG RESETSTAT sets every count to zero", "[command]") {
  World world;
  world.send({"NOSUCH"});
  world.send({"BF.EXISTS", "k", "a"});
  world.workers[1].requests.add(5);
  world.send({"BF.ADD", "k", "a"});
  CHECK(world.send({"CONFIG", "RESETSTAT"}) == "+OK");
  CHECK(world.workers[0].key_misses.get() == 0);
  CHECK(world.workers[0].error_replies.get() == 0);
  CHECK(world.workers[1].requests.get() == 0);
  // The decision to save rests on this one.
  CHECK(world.workers[0].items_added.get() == 1);
  CHECK(world.clients.accepted == 0);
  CHECK(world.send({"INFO", "errorstats"}) == "$# Errorstats\r\n");
}
