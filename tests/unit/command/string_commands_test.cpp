// Commands on strings and their bits: what the recorded exchanges do not say, and what the journal gets.
#include <sepal/filter/bit_string.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace string_commands_test {

namespace {

using namespace sepal;
using command::testing::readable;
using test::Recorded;
using Kind = Recorded::Kind;

struct World : command::testing::World {
  World() : command::testing::World(keyspace::KeyspaceOptions{.seed = 1}) {
    services.logs = recording.all_logs();
  }

  // What the request recorded. At least as many bytes were admitted before it.
  std::vector<Recorded> recorded(std::initializer_list<std::string_view> words) {
    const std::size_t before = recording.operations().size();
    const std::uint64_t admitted_before = recording.admitted_bytes();
    last_reply = send(words);
    dispatcher.commit();
    auto all = recording.operations();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before));
    std::uint64_t bytes = 0;
    for (const Recorded& each : all) bytes += each.bytes();
    CHECK(bytes <= recording.admitted_bytes() - admitted_before);
    return all;
  }
  std::string text(std::string_view key) {
    const filter::Filter* const value = keyspace.find({.database = 0, .key = key});
    REQUIRE(value != nullptr);
    return filter::BitString(*value).text();
  }
  std::string last_reply;
};

const std::string wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";

}  // namespace

TEST_CASE("a bit that is set is recorded as an added item, and all else of a string as bytes", "[command]") {
  World world;
  const auto made = world.recorded({"SETBIT", "k", "9", "1"});
  REQUIRE(made.size() == 1);
  CHECK(made[0].kind == Kind::written);
  CHECK(made[0].offset == 1);
  CHECK(made[0].image == std::vector{std::byte{0x40}});
  CHECK(world.last_reply == ":0");

  const auto set = world.recorded({"SETBIT", "k", "0", "1"});
  REQUIRE(set.size() == 1);
  CHECK(set[0].kind == Kind::added);
  CHECK(set[0].fingerprints == std::vector{Fingerprint{.low = 0, .high = 0}});
  CHECK(world.recorded({"SETBIT", "k", "0", "1"}).empty());
  CHECK(world.last_reply == ":1");
  CHECK(world.recorded({"SETBIT", "k", "1", "0"}).empty());

  const auto cleared = world.recorded({"SETBIT", "k", "0", "0"});
  REQUIRE(cleared.size() == 1);
  CHECK(cleared[0].kind == Kind::written);
  CHECK(world.last_reply == ":1");
  CHECK(world.text("k") == std::string("\0\x40", 2));
}

TEST_CASE("a string that is put is recorded whole; a longer one in pieces behind its removal", "[command]") {
  World world;
  const auto put = world.recorded({"SET", "k", "value", "EX", "100"});
  REQUIRE(put.size() == 1);
  CHECK(put[0].kind == Kind::adopted);
  CHECK(put[0].deadline != keyspace::no_deadline);

  const std::string longer(200'000, 'x');
  const auto pieces = world.recorded({"SET", "k", longer, "KEEPTTL"});
  REQUIRE(pieces.size() == 6);
  CHECK(pieces[0].kind == Kind::removed);
  for (std::size_t at = 1; at < 5; ++at) CHECK(pieces[at].kind == Kind::written);
  CHECK(pieces[5].kind == Kind::expires);
  CHECK(world.text("k") == longer);

  const auto appended = world.recorded({"APPEND", "k", std::string(100'000, 'y')});
  REQUIRE(appended.size() == 2);
  CHECK(appended[1].offset == 200'000 + keyspace::written_bytes_max);
  CHECK(world.text("k") == longer + std::string(100'000, 'y'));
}

TEST_CASE("the journal has room for every change of a string before it is made", "[command]") {
  World world;
  const std::string key(60'000, 'k');
  CHECK_FALSE(world.recorded({"MSET", key, "1", "b", "2", key + "2", std::string(70'000, 'v')}).empty());
  CHECK_FALSE(
      world.recorded({"BITFIELD", key, "SET", "i64", "#5", "-1", "INCRBY", "u8", "3", "200"}).empty());
  CHECK_FALSE(world.recorded({"INCRBY", "n", "41"}).empty());
  CHECK_FALSE(world.recorded({"INCR", "n"}).empty());
  CHECK(world.last_reply == ":42");
  CHECK_FALSE(world.recorded({"SETRANGE", key, "100000", std::string(150'000, 'z')}).empty());
  CHECK_FALSE(world.recorded({"GETDEL", key}).empty());
  CHECK_FALSE(world.recorded({"SETEX", "b", "10", "x"}).empty());
  CHECK_FALSE(world.recorded({"PSETEX", "b", "10", "x"}).empty());
  CHECK_FALSE(world.recorded({"GETEX", "b", "PERSIST"}).empty());
  CHECK_FALSE(world.recorded({"GETSET", "b", "y"}).empty());
  CHECK(world.last_reply == "$x");
  CHECK_FALSE(world.recorded({"SETNX", "c", "y"}).empty());
  CHECK_FALSE(world.recorded({"MSETNX", "d", "y", "e", "z"}).empty());
  CHECK_FALSE(world.recorded({"DECRBY", "n", "2"}).empty());
  CHECK_FALSE(world.recorded({"DECR", "n"}).empty());
  CHECK(world.last_reply == ":39");
  CHECK_FALSE(world.recorded({"BITOP", "OR", "f", "b", "c", "none"}).empty());
  CHECK(world.last_reply == ":1");
}

TEST_CASE("a number and a time that are none change no string", "[command]") {
  World world;
  world.send({"SET", "k", "text"});
  world.send({"SET", "n", "9223372036854775807"});
  CHECK(world.send({"INCRBY", "k", "1"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"INCRBY", "n", "1"}) == "-ERR increment or decrement would overflow");
  CHECK(world.send({"DECRBY", "n", "-1"}) == "-ERR increment or decrement would overflow");
  CHECK(world.send({"DECRBY", "n", "-9223372036854775808"}) == "-ERR decrement would overflow");
  CHECK(world.send({"SETEX", "k", "0", "x"}) == "-ERR invalid expire time in 'setex' command");
  CHECK(world.send({"PSETEX", "k", "a", "x"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"GETEX", "k", "EX", "1", "PERSIST"}) == "-ERR syntax error");
  CHECK(world.send({"SET", "k", "x", "NX", "XX"}) == "-ERR syntax error");
  CHECK(world.text("k") == "text");
}

TEST_CASE("ranges of strings are clipped as the reference does it", "[command]") {
  World world;
  world.send({"SET", "k", "Hello"});
  CHECK(world.send({"SUBSTR", "k", "1", "-2"}) == "$ell");
  CHECK(world.send({"GETRANGE", "k", "-100", "100"}) == "$Hello");
  CHECK(world.send({"GETRANGE", "k", "3", "2"}) == "$");
  CHECK(world.send({"GETRANGE", "k", "-1", "-2"}) == "$");
  CHECK(world.send({"BITCOUNT", "k", "0", "0"}) == ":2");
  CHECK(world.send({"BITCOUNT", "k", "1", "1", "BIT"}) == ":1");
  CHECK(world.send({"BITPOS", "k", "1", "5"}) == ":-1");
  CHECK(world.send({"BITPOS", "k", "0", "0", "-1", "BIT"}) == ":0");
}

TEST_CASE("numbers in a string wrap, stop at their bounds, or stay, as OVERFLOW says", "[command]") {
  World world;
  CHECK(world.send({"BITFIELD", "k", "SET", "u8", "0", "255", "GET", "i8", "0"}) == "*[:0, :-1]");
  CHECK(world.send({"BITFIELD", "k", "INCRBY", "u8", "0", "2"}) == "*[:1]");
  CHECK(world.send({"BITFIELD", "k", "OVERFLOW", "SAT", "INCRBY", "u8", "0", "-5"}) == "*[:0]");
  CHECK(world.send({"BITFIELD", "k", "OVERFLOW", "FAIL", "INCRBY", "u8", "0", "-1"}) == "*[$null]");
  CHECK(world.send({"BITFIELD", "k", "SET", "i64", "3", "-9223372036854775808", "GET", "i64", "3"}) ==
        "*[:0, :-9223372036854775808]");
  CHECK(world.send({"BITFIELD", "k", "OVERFLOW", "SAT", "INCRBY", "i64", "3", "-1"}) ==
        "*[:-9223372036854775808]");
  CHECK(world.send({"BITFIELD", "k", "INCRBY", "i64", "3", "-1"}) == "*[:9223372036854775807]");
  CHECK(world.send({"BITFIELD_RO", "k", "SET", "u8", "0", "1"}) ==
        "-ERR BITFIELD_RO only supports the GET subcommand");
  CHECK(world.send({"BITFIELD_RO", "none", "GET", "u63", "100"}) == "*[:0]");
}

TEST_CASE("commands on strings refuse filters, and commands on filters refuse strings", "[command]") {
  World world;
  world.send({"BF.ADD", "filter", "a"});
  world.send({"SET", "string", "a"});
  CHECK(world.send({"GETEX", "filter"}) == wrong_type);
  CHECK(world.send({"GETDEL", "filter"}) == wrong_type);
  CHECK(world.send({"DECR", "filter"}) == wrong_type);
  CHECK(world.send({"BITFIELD", "filter", "GET", "u8", "0"}) == wrong_type);
  CHECK(world.send({"BITPOS", "filter", "1"}) == wrong_type);
  CHECK(world.send({"BF.MADD", "string", "a"}) == wrong_type);
  CHECK(world.send({"BF.MIRROR", "string", "filter"}) == wrong_type);
  CHECK(world.send({"BF.MIRROR", "filter", "string"}) == wrong_type);
  CHECK(world.send({"BF.MEXISTS", "string", "a"}) == "*[:0]");
  CHECK(world.send({"BF.RESERVE", "string", "0.1", "10"}) == wrong_type);
  CHECK(world.send({"MSETNX", "new", "1", "filter", "2"}) == ":0");
  CHECK(world.send({"EXISTS", "new"}) == ":0");
}

TEST_CASE("a string is put over the target of a mirror only when the mirror has ended", "[command]") {
  World world;
  world.send({"BF.ADD", "source", "a"});
  world.send({"BF.ADD", "target", "a"});
  REQUIRE(world.send({"BF.MIRROR", "source", "target"}) == "+OK");
  CHECK(world.send({"SET", "target", "x"}) ==
        "-ERR the key is the target of a mirror: say BF.MIRROR source OFF first");
  CHECK(world.send({"BITOP", "NOT", "target", "none"}) ==
        "-ERR the key is the target of a mirror: say BF.MIRROR source OFF first");
}

TEST_CASE("a string goes through Redis' own payload, whatever form it has there", "[command]") {
  World world;
  for (const std::string& text :
       {std::string(), std::string("a\0b", 3), std::string(70, 'x'), std::string(20'000, 'y')}) {
    world.send({"SET", "k", text});
    const std::string payload = world.send({"DUMP", "k"}).substr(1);
    CHECK(payload[0] == '\0');
    CHECK(world.send({"RESTORE", "copy", "0", payload, "REPLACE"}) == "+OK");
    CHECK(world.text("copy") == text);
  }
  std::string damaged = world.send({"DUMP", "k"}).substr(1);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  CHECK(world.send({"RESTORE", "other", "0", damaged}) == "-ERR DUMP payload version or checksum are wrong");
}

TEST_CASE("a transaction and a watch see the bits of strings", "[command]") {
  World world;
  world.send({"SET", "k", "ab"});
  world.send({"WATCH", "k"});
  world.send({"SETBIT", "k", "7", "0"});
  world.send({"MULTI"});
  world.send({"SETBIT", "k", "6", "1"});
  CHECK(world.send({"EXEC"}) == "*null");
  world.send({"MULTI"});
  world.send({"SETBIT", "k", "6", "1"});
  world.send({"STRLEN", "k"});
  CHECK(world.send({"EXEC"}) == "*[:0, :2]");
}

TEST_CASE("memory that a string would take beyond maxmemory is refused", "[command]") {
  World world;
  world.keyspace.set_memory_max(world.keyspace.memory_used() + 600'000);
  CHECK(world.send({"SETBIT", "k", "4294967295", "1"}) == ":0");
  CHECK(world.send({"SETRANGE", "k", "1000000", std::string(600'000, 'x')}) ==
        "-OOM command not allowed when used memory > 'maxmemory'.");
  CHECK(world.send({"STRLEN", "k"}) == ":536870912");
  CHECK(world.send({"GETBIT", "k", "8000000"}) == ":0");
  CHECK(world.send({"SET", "other", std::string(700'000, 'x')}) ==
        "-OOM command not allowed when used memory > 'maxmemory'.");
  CHECK(world.send({"EXISTS", "other"}) == ":0");
}

}  // namespace string_commands_test
