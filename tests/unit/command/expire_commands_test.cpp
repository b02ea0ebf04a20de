#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace expire_commands_test {

using namespace sepal;
using command::testing::World;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

struct Expiring : World {
  Expiring() { send({"BF.ADD", "k", "a"}); }
  void pass(milliseconds time) { now += time; }
  std::vector<test::Recorded> recorded(std::initializer_list<std::string_view> words) {
    services.logs = recording.all_logs();
    send(words);
    dispatcher.commit();
    services.logs.assign(services.logs.size(), nullptr);
    return recording.operations();
  }
};

}  // namespace

TEST_CASE("a key is found before its deadline, and not from then on", "[command][expiry]") {
  Expiring world;
  CHECK(world.send({"PEXPIRE", "k", "1000"}) == ":1");
  world.pass(milliseconds(999));
  CHECK(world.send({"PTTL", "k"}) == ":1");
  CHECK(world.send({"BF.EXISTS", "k", "a"}) == ":1");
  world.pass(milliseconds(1));
  CHECK(world.send({"PTTL", "k"}) == ":-2");
  CHECK(world.send({"EXISTS", "k"}) == ":0");
  CHECK(world.send({"TYPE", "k"}) == "+none");
  CHECK(world.send({"BF.EXISTS", "k", "a"}) == ":0");
  CHECK(world.send({"BF.CARD", "k"}) == ":0");
  CHECK(world.send({"BF.INFO", "k"}) == "-ERR not found");
  CHECK(world.send({"KEYS", "*"}) == "*[]");
  CHECK(world.send({"SCAN", "0"}) == "*[$0, *[]]");
  CHECK(world.send({"RANDOMKEY"}) == "$null");
  CHECK(world.send({"EXPIRE", "k", "10"}) == ":0");
  CHECK(world.send({"PERSIST", "k"}) == ":0");
  CHECK(world.send({"RENAME", "k", "l"}) == "-ERR no such key");
}

TEST_CASE("reading a key that is past its deadline closes no gate", "[command][expiry]") {
  Expiring world;
  world.send({"PEXPIRE", "k", "1"});
  world.pass(milliseconds(1));
  world.alone_runs = 0;
  world.send({"EXISTS", "k"});
  world.send({"BF.EXISTS", "k", "a"});
  world.send({"EXPIRE", "k", "10"});
  CHECK(world.alone_runs == 0);
  CHECK(world.send({"DBSIZE"}) == ":1");  // the expired key is not removed yet
}

TEST_CASE("a command that writes to a key past its deadline finds it removed", "[command][expiry]") {
  for (const auto& words : std::vector<std::vector<std::string_view>>{{"BF.ADD", "k", "b"},
                                                                      {"BF.MADD", "k", "b"},
                                                                      {"BF.INSERT", "k", "ITEMS", "b"},
                                                                      {"BF.RESERVE", "k", "0.01", "10"}}) {
    INFO(words[0]);
    Expiring world;
    world.send({"PEXPIRE", "k", "1"});
    world.pass(milliseconds(1));
    CHECK(world.send_words("a", words)[0] != '-');
    CHECK(world.send({"BF.EXISTS", "k", "a"}) == ":0");
    CHECK(world.send({"TTL", "k"}) == ":-1");
    CHECK(world.keyspace.expired_count() == 1);
  }
}

TEST_CASE("DEL and RENAMENX do not see a key past its deadline", "[command][expiry]") {
  Expiring world;
  world.send({"BF.ADD", "l", "b"});
  world.send({"PEXPIRE", "k", "1"});
  world.pass(milliseconds(1));
  CHECK(world.send({"RENAMENX", "l", "k"}) == ":1");
  CHECK(world.send({"BF.EXISTS", "k", "b"}) == ":1");
  CHECK(world.send({"TTL", "k"}) == ":-1");
  world.send({"PEXPIRE", "k", "1"});
  world.pass(milliseconds(1));
  CHECK(world.send({"DEL", "k"}) == ":0");
  CHECK(world.send({"DBSIZE"}) == ":0");
  CHECK(world.keyspace.expired_count() == 2);
}

TEST_CASE("the deadline moves with a renamed key, stays after adds, and ends with the key",
          "[command][expiry]") {
  Expiring world;
  world.send({"EXPIRE", "k", "100"});
  world.send({"BF.MADD", "k", "b", "c"});
  CHECK(world.send({"TTL", "k"}) == ":100");
  world.send({"BF.ADD", "l", "a"});
  world.send({"EXPIRE", "l", "500"});
  world.send({"RENAME", "k", "l"});
  CHECK(world.send({"TTL", "l"}) == ":100");
  world.send({"DEL", "l"});
  world.send({"BF.ADD", "l", "a"});
  CHECK(world.send({"TTL", "l"}) == ":-1");
  world.send({"EXPIRE", "l", "100"});
  world.send({"FLUSHALL"});
  world.send({"BF.ADD", "l", "a"});
  CHECK(world.send({"TTL", "l"}) == ":-1");
}

TEST_CASE("NX, XX, GT and LT are compared with the present deadline", "[command][expiry]") {
  Expiring world;
  CHECK(world.send({"EXPIRE", "k", "100", "XX"}) == ":0");
  CHECK(world.send({"EXPIRE", "k", "100", "GT"}) == ":0");
  CHECK(world.send({"EXPIRE", "k", "100", "LT"}) == ":1");
  CHECK(world.send({"EXPIRE", "k", "100", "NX"}) == ":0");
  CHECK(world.send({"EXPIRE", "k", "100", "GT"}) == ":0");
  CHECK(world.send({"EXPIRE", "k", "100", "LT"}) == ":0");
  CHECK(world.send({"EXPIRE", "k", "101", "xx", "gt"}) == ":1");
  CHECK(world.send({"EXPIRE", "k", "99", "XX", "LT"}) == ":1");
  CHECK(world.send({"TTL", "k"}) == ":99");
  CHECK(world.send({"EXPIRE", "k", "1", "GT", "LT"}) ==
        "-ERR GT and LT options at the same time are not compatible");
  CHECK(world.send({"EXPIRE", "k", "1", "LT", "NX"}) ==
        "-ERR NX and XX, GT or LT options at the same time are not compatible");
  CHECK(world.send({"EXPIRE", "k", "x", "soon"}) == "-ERR Unsupported option soon");
  CHECK(world.send({"EXPIRE", "k", std::string(1000, 'x'), std::string(1000, 'y')}).size() < 200);
}

TEST_CASE("times that do not fit in 64 bits are refused, and past times delete the key",
          "[command][expiry]") {
  Expiring world;
  for (const char* number : {"9223372036854775807", "9223372036854776", "-9223372036854775808"})
    CHECK(world.send({"EXPIRE", "k", number}) == "-ERR invalid expire time in 'expire' command");
  CHECK(world.send({"EXPIREAT", "k", "9223372036854776"}) ==
        "-ERR invalid expire time in 'expireat' command");
  CHECK(world.send({"PEXPIRE", "k", "9223372036854775807"}) ==
        "-ERR invalid expire time in 'pexpire' command");
  CHECK(world.send({"PEXPIREAT", "k", "9223372036854775807"}) == ":1");
  CHECK(world.send({"PEXPIRETIME", "k"}) == ":9223372036854775807");
  CHECK(world.send({"EXPIRETIME", "k"}) == ":9223372036854776");
  CHECK(world.send({"INFO", "keyspace"}).find("expires=1,avg_ttl=92") != std::string::npos);
  CHECK(world.send({"PEXPIRE", "k", "-9223372036854775808"}) == ":1");
  CHECK(world.send({"DBSIZE"}) == ":0");
  CHECK(world.keyspace.expired_count() == 0);  // a deletion
}

TEST_CASE("seconds are rounded to the nearest", "[command][expiry]") {
  Expiring world;
  world.send({"PEXPIREAT", "k", "33177117420500"});
  CHECK(world.send({"EXPIRETIME", "k"}) == ":33177117421");
  world.send({"PEXPIRE", "k", "1499"});
  CHECK(world.send({"TTL", "k"}) == ":1");
  world.send({"PEXPIRE", "k", "1500"});
  CHECK(world.send({"TTL", "k"}) == ":2");
}

TEST_CASE("BF.RESERVE with EX sets the deadline", "[command][expiry]") {
  World world;
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "10", "EX", "100"}) == "+OK");
  CHECK(world.send({"TTL", "k"}) == ":100");
  CHECK(world.send({"BF.RESERVE", "l", "0.01", "10", "NONSCALING", "ex", "5", "EXPANSION", "0"}) == "+OK");
  CHECK(world.send({"TTL", "l"}) == ":5");
  CHECK(world.send({"BF.RESERVE", "k", "0.01", "10", "EX", "5"}) == "-ERR item exists");
  CHECK(world.send({"TTL", "k"}) == ":100");
  for (const char* wrong : {"0", "-1", "9223372036854775807"})
    CHECK(world.send({"BF.RESERVE", "m", "0.01", "10", "EX", wrong}) ==
          "-ERR invalid expire time in 'bf.reserve' command");
  CHECK(world.send({"BF.RESERVE", "m", "0.01", "10", "EX", "x"}) ==
        "-ERR value is not an integer or out of range");
  CHECK(world.send({"BF.RESERVE", "m", "0.01", "10", "EX"}) == "-ERR syntax error");
  CHECK(world.send({"BF.RESERVE", "m", "0.01", "10", "a", "b", "c", "d"}) ==
        "-ERR wrong number of arguments for 'bf.reserve' command");
  CHECK(world.send({"DBSIZE"}) == ":2");
}

TEST_CASE("an expired key is recorded as removed, before the filter that replaces it", "[command][expiry]") {
  using Kind = test::Recorded::Kind;
  Expiring world;
  world.send({"PEXPIRE", "k", "1"});
  world.pass(milliseconds(1));
  const auto added = world.recorded({"BF.ADD", "k", "a"});
  REQUIRE(added.size() == 3);
  CHECK(added[0].kind == Kind::removed);
  CHECK(added[1].kind == Kind::created);
  CHECK(added[2].kind == Kind::added);
  const auto expires = world.recorded({"EXPIRE", "k", "1"}).back();
  CHECK(expires.kind == Kind::expires);
  CHECK(expires.deadline == keyspace::deadline_at(world.now + seconds(1)));
  CHECK(world.recorded({"PERSIST", "k"}).back().deadline == keyspace::no_deadline);
  CHECK(world.recorded({"EXPIRE", "k", "0"}).back().kind == Kind::removed);
  CHECK(world.recorded({"BF.RESERVE", "k", "0.01", "10", "EX", "1"}).back().kind == Kind::expires);
}

TEST_CASE("a request records no more removals of expired keys than were admitted", "[command][expiry]") {
  const std::string one(500, 'x');
  const std::string other(500, 'y');
  for (const auto& words :
       std::vector<std::vector<std::string_view>>{{"RENAME", one, other},
                                                  {"DEL", one, other},
                                                  {"BF.ADD", one, "a"},
                                                  {"BF.RESERVE", other, "0.1", "9", "EX", "1"},
                                                  {"EXPIRE", one, "3"}}) {
    INFO(words[0]);
    Expiring world;
    for (const std::string& key : {one, other}) {
      world.send({"BF.ADD", key, "b"});
      world.send({"PEXPIRE", key, key == one && words[0] == "RENAME" ? "10" : "1"});
    }
    world.pass(milliseconds(1));
    world.services.logs = world.recording.all_logs();
    world.send_words("a", words);
    world.dispatcher.commit();
    std::uint64_t bytes = 0;
    for (const auto& operation : world.recording.operations()) bytes += operation.bytes();
    CHECK(bytes <= world.recording.admitted_bytes());
  }
}

TEST_CASE("INFO counts keys with a deadline, and those that expired", "[command][expiry]") {
  Expiring world;
  world.send({"BF.ADD", "l", "a"});
  world.send({"BF.ADD", "m", "a"});
  world.send({"PEXPIRE", "k", "1000"});
  world.send({"PEXPIRE", "l", "3000"});
  CHECK(world.send({"INFO", "keyspace"}).find("db0:keys=3,expires=2,avg_ttl=2000,") != std::string::npos);
  world.pass(milliseconds(1000));
  world.send({"DEL", "k"});
  CHECK(world.send({"INFO", "keyspace"}).find("db0:keys=2,expires=1,avg_ttl=2000,") != std::string::npos);
  CHECK(world.send({"INFO", "stats"}).find("expired_keys:1\r\n") != std::string::npos);
  world.send({"CONFIG", "RESETSTAT"});
  CHECK(world.send({"INFO", "stats"}).find("expired_keys:0\r\n") != std::string::npos);
}

}  // namespace expire_commands_test
