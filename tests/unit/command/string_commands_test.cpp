// Commands on strings and their bits: what the recorded exchanges do not say, and what the journal gets.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/memory/memory.hpp>
#include <sepal/bloom/strings/bit_string.hpp>
#include <sepal/command/run/transaction.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace string_commands_test {

namespace {

using namespace sepal;
using command::at_once_max;
using command::Next;
using command::part_bytes_max;
using command::row_for;
using command::RunMode;
using command::transaction_reply_bytes_max;
using command::whole_items_max;
using command::testing::readable;
using test::Recorded;
using Kind = Recorded::Kind;

struct World : command::testing::World {
  World() : command::testing::World(keyspace::KeyspaceOptions{.seed = 1}) {
    services.logs = recording.all_logs();
  }

  // What the request recorded. At least as many bytes were admitted before it.
  std::vector<Recorded> recorded(std::initializer_list<std::string_view> words) {
    dispatcher.commit();  // what requests before this one have recorded
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
    const bloom::Filter* const value = keyspace.find({.database = 0, .key = key});
    REQUIRE(value != nullptr);
    return bloom::BitString(*value).text();
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

TEST_CASE("what one command changes is in the journal whole or not at all", "[command]") {
  World world;
  const auto groups_of = [&](std::initializer_list<std::string_view> words) {
    const int before = world.recording.groups;
    world.recorded(words);
    return world.recording.groups - before;
  };
  const std::string longer(70'000, 'x');
  CHECK(groups_of({"SET", "k", "short"}) == 0);
  CHECK(groups_of({"SET", "k", longer}) == 1);
  CHECK(groups_of({"APPEND", "k", longer}) == 1);
  CHECK(groups_of({"MSET", "a", longer, "b", "short"}) == 1);
  CHECK(groups_of({"MSETNX", "c", longer, "d", longer}) == 1);
  CHECK(groups_of({"BITFIELD", "k", "SET", "u8", "0", "1", "SET", "u8", "2000000", "1"}) == 1);
  CHECK(groups_of({"BITFIELD", "k", "GET", "u8", "0"}) == 0);
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

TEST_CASE("the journal is asked for little more room than a change of strings takes", "[command]") {
  World world;
  constexpr std::uint64_t mb = std::uint64_t{1} << 20;
  const auto asked = [&](const std::vector<std::string_view>& words) {
    const std::uint64_t before = world.recording.admitted_bytes();
    world.last_reply = world.send_words("a", words);
    return world.recording.admitted_bytes() - before;
  };
  const std::string longer(10 * mb, 'x');
  // A job puts such a string, and asks for its own room.
  CHECK(asked({"SET", "k", longer}) < 2 * mb);
  CHECK(world.adoptions.waiting.size() == 1);
  // Both are written in parts.
  CHECK(asked({"APPEND", "b", longer}) < 12 * mb);
  CHECK(world.last_reply == ":10485760");
  CHECK(asked({"SETRANGE", "b", "0", longer}) < 12 * mb);

  const std::string value(keyspace::written_bytes_max, 'v');
  std::vector<std::string> keys;
  for (int at = 0; at < 5000; ++at) keys.push_back("key:" + std::to_string(at));
  std::vector<std::string_view> words{"MSET"};
  for (const std::string& key : keys) words.insert(words.end(), {key, "v"});
  words.insert(words.end(), {"long", value});
  CHECK(asked(words) < 4 * mb);
  CHECK(world.last_reply == "+OK");
  CHECK(asked({"SET", "k", value}) < 3 * value.size());

  // No string changes in the shared gate. A worker would keep what it asks for there.
  words[0] = "MSETNX";
  words.pop_back();
  CHECK(asked(words) < mb);
}

TEST_CASE("any change of strings has its room in the journal", "[command]") {
  World world;
  std::mt19937_64 random(20261127);
  const auto below = [&](std::uint64_t bound) { return static_cast<std::size_t>(random() % bound); };
  constexpr std::size_t lengths[] = {0, 1, 7, 8, 300, 5000, 65'447, 65'448, 65'449, 65'536, 70'000, 1 << 20};
  const auto bytes = [&] { return std::string(lengths[below(std::size(lengths))], 'v'); };
  const auto key = [&] {
    return std::string(1 + below(3) * below(30'000), static_cast<char>('a' + below(3)));
  };
  for (int round = 0; round < 150; ++round) {
    const std::string one = key();
    const std::string other = key();
    const std::string number = std::to_string(below(200'000));
    world.send({"PEXPIRE", one, std::to_string(1 + below(3))});
    world.now += std::chrono::milliseconds(2);
    switch (below(7)) {
      case 0:
        world.recorded({"SET", one, bytes(), "PX", number + "1"});
        break;
      case 1:
        world.recorded({"APPEND", one, bytes()});
        break;
      case 2:
        world.recorded({"SETRANGE", one, number, bytes()});
        break;
      case 3:
        world.recorded({"MSET", one, bytes(), other, bytes(), one, bytes()});
        break;
      case 4:
        world.recorded({"GETSET", one, bytes()});
        break;
      case 5:
        world.recorded({"BITFIELD", one, "SET", "u8", number, "1", "INCRBY", "i64", "3", "-1"});
        break;
      default:
        world.send({"SET", other, "9"});
        world.recorded({"INCRBY", other, "9223372036854775798"});
    }
  }
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
  // Both ends are before the string.
  CHECK(world.send({"BITPOS", "k", "1", "-119", "-4552"}) == ":1");
  CHECK(world.send({"BITCOUNT", "k", "-119", "-4552"}) == ":0");
  CHECK(world.send({"BITCOUNT", "k", "1", "a", "a"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"BITCOUNT", "k", "1", "1", "a"}) == "-ERR syntax error");
}

TEST_CASE("the bits of a long string are counted and sought in parts", "[command]") {
  World world;
  world.send({"SETBIT", "k", "40000000", "1"});
  world.send({"SETBIT", "k", "3", "1"});
  CHECK(world.send({"BITCOUNT", "k"}) == ":2");
  CHECK(world.parts_before_the_last == 4);
  CHECK(world.send({"BITPOS", "k", "1", "1"}) == ":40000000");
  CHECK(world.parts_before_the_last == 4);
  CHECK(world.send({"BITPOS", "k", "1"}) == ":3");
  CHECK(world.parts_before_the_last == 0);
  // Another client puts a shorter string there.
  world.between_parts = [&](int) { world.send_from("b", {"SET", "k", "x"}); };
  CHECK(world.send({"BITCOUNT", "k"}) == ":1");
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
  CHECK(world.send({"BITFIELD_RO", "k", "GET", "i39", "4294967295"}) == "*[:0]");
  CHECK(world.send({"BITFIELD", "k", "SET", "i39", "4294967295", "1"}) ==
        "-ERR bit offset is not an integer or out of range");
  // A negative number is a large one in an unsigned field.
  CHECK(world.send({"BITFIELD", "u", "OVERFLOW", "SAT", "SET", "u8", "0", "-114", "GET", "u8", "0"}) ==
        "*[:0, :255]");
  CHECK(world.send({"BITFIELD", "u", "OVERFLOW", "FAIL", "SET", "u8", "0", "-1"}) == "*[$null]");
  CHECK(world.send({"BITFIELD", "u", "SET", "u8", "0", "-2", "GET", "u8", "0"}) == "*[:255, :254]");
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

TEST_CASE("a user who may only write a string learns nothing of its bits", "[command]") {
  World world;
  const std::vector<std::string_view> requests[] = {{"BITCOUNT", "k"},
                                                    {"BITPOS", "k", "1"},
                                                    {"GETBIT", "k", "1"},
                                                    {"GET", "k"},
                                                    {"GETRANGE", "k", "0", "1"}};
  for (const auto& request : requests) {
    std::vector<std::string_view> words{"COMMAND", "GETKEYSANDFLAGS"};
    words.insert(words.end(), request.begin(), request.end());
    CHECK(world.send_words("a", words).find("access") != std::string::npos);
  }
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

TEST_CASE("bits that neighbours set and ask for are answered together, as integers", "[command]") {
  World world;
  world.send({"SETBIT", "k", "99", "1"});
  const auto together = [&](std::string_view name, std::vector<std::string_view> words,
                            std::vector<std::string_view> positions) {
    words.insert(words.begin(), name);
    resp::Reply reply;
    reply.set_version(resp::Version::resp3);
    std::unique_ptr<command::PartialRun> partial;
    const command::Request first{.client = world.connection("a").client,
                                 .reply = reply,
                                 .spec = command::find_command(name),
                                 .words = words,
                                 .partial = partial};
    const auto next =
        world.dispatcher.run_together(first, positions, {.now = world.now, .steady_now = {}}).next;
    return next == command::Next::done ? std::string(reply.bytes()) : std::string("one by one");
  };
  CHECK(together("setbit", {"k", "1", "1"}, {"1", "2", "1", "99"}) == ":0\r\n:0\r\n:1\r\n:1\r\n");
  CHECK(together("getbit", {"k", "1"}, {"1", "3", "2", "1000"}) == ":1\r\n:0\r\n:1\r\n:0\r\n");
  CHECK(together("getbit", {"none", "1"}, {"1", "3"}) == ":0\r\n:0\r\n");
  world.dispatcher.commit();
  const auto operations = world.recording.operations();
  REQUIRE_FALSE(operations.empty());
  const Recorded& recorded = operations.back();
  CHECK(recorded.kind == Kind::added);
  CHECK(recorded.fingerprints ==
        std::vector{Fingerprint{.low = 1, .high = 0}, Fingerprint{.low = 2, .high = 0}});
  // One that cannot run so sends all of them their own way.
  CHECK(together("setbit", {"k", "1", "0"}, {"1", "2"}) == "one by one");
  CHECK(together("setbit", {"k", "1", "1"}, {"3", "200"}) == "one by one");
  CHECK(together("setbit", {"none", "1", "1"}, {"3", "4"}) == "one by one");
  CHECK(together("getbit", {"k", "1"}, {"1", "x"}) == "one by one");
  CHECK(world.send({"GETBIT", "k", "3"}) == ":0");
}

// Made by redis-server 7.0.15: SET k VALUE, then DUMP k. Numbers stand there as 1, 2 or 4 bytes, and what
// repeats itself is packed as LZF.
TEST_CASE("a string that Redis keeps as a number, or has packed, is restored as its bytes", "[command]") {
  struct Dumped {
    std::string_view hex;
    std::string text;
  };
  const Dumped dumps[] = {
      {"00c07b0a0048e253e1007a67b9", "123"},
      {"00c0f90a005e26d130d7a242ab", "-7"},
      {"00c139300a009d94ea2793fc08b9", "12345"},
      {"00c100800a00b540064753bb1ace", "-32768"},
      {"00c2d20296490a0002a479f6c2d5670a", "1234567890"},
      {"00c2000000800a00c74f873e33558187", "-2147483648"},
      {"000a323134373438333634380a00e7b129a34c1d76ee", "2147483648"},
      {"00033030370a007258e27b4c69bad9", "007"},
      {"00000a005d9b5c400f7fa2da", ""},
      {"000573686f72740a00c47ccd5215235c12", "short"},
      {"00c3091e016161e011000161610a0045737cbb2b647bbb", std::string(30, 'a')},
      {"00c30c412c010000e0ff00e017000100000a00a405626919032562", std::string(300, '\0')},
  };
  World world;
  for (const auto& [hex, text] : dumps) {
    CAPTURE(hex);
    std::string payload;
    for (std::size_t at = 0; at < hex.size(); at += 2)
      payload += static_cast<char>(std::stoi(std::string(hex.substr(at, 2)), nullptr, 16));
    CHECK(world.send({"RESTORE", "k", "0", payload, "REPLACE"}) == "+OK");
    CHECK(world.text("k") == text);
    // No byte may be another one, and none may be missing.
    for (std::size_t at = 1; at < payload.size(); ++at) {
      std::string damaged = payload;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      CHECK(world.send({"RESTORE", "other", "0", damaged}).starts_with("-ERR"));
      CHECK(world.send({"RESTORE", "other", "0", payload.substr(0, at)}).starts_with("-ERR"));
    }
  }
}

// The checksum matches, so only the contents are wrong.
TEST_CASE("a payload of a string whose contents are wrong is refused", "[command]") {
  const auto sealed = [](std::string value) {
    value = std::string(1, '\0') + value + std::string("\x0a\0", 2);
    std::uint64_t checksum = bloom::rdb_checksum(std::as_bytes(std::span(value)));
    for (int byte = 0; byte < 8; ++byte, checksum >>= 8) value += static_cast<char>(checksum & 0xff);
    return value;
  };
  const std::string values[] = {
      "",                                      // no length
      std::string("\5abc", 4),                 // longer than what is there
      std::string("\2abc", 4),                 // more is there
      std::string("\xc1\1", 2),                // half a number
      std::string("\xc0\1\1", 3),              // more than a number
      std::string("\xc4\1\1", 3),              // an encoding that there is not
      std::string("\xc3\0\5", 3),              // nothing unpacks to something
      std::string("\xc3\2\x14\0a", 5),         // packed bytes that unpack to less
      std::string("\xc3\3\1\xe0\xff\xff", 6),  // that point before the beginning
      std::string("\x80\xff\xff\xff\xff", 5),  // 4 GB
      std::string("\x81\xff\xff\xff\xff\xff\xff\xff\xff", 9),
      std::string("\xc3\2\x81\xff\xff\xff\xff\xff\xff\xff\xff\0a", 13),
  };
  World world;
  for (const std::string& value : values) {
    CAPTURE(value);
    CHECK(world.send({"RESTORE", "k", "0", sealed(value)}).starts_with("-ERR"));
  }
  CHECK(world.send({"EXISTS", "k"}) == ":0");
  CHECK(world.send({"RESTORE", "k", "0", sealed(std::string("\3abc", 4))}) == "+OK");
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

TEST_CASE("a bit that is set beside other requests counts as a change, so that a stop saves it",
          "[command]") {
  World world;
  world.send({"SET", "k", "ab"});
  world.send({"SETBIT", "k", "0", "1"});
  CHECK(world.workers[0].bits_set.get() == 1);
  world.send({"SETBIT", "k", "0", "1"});
  CHECK(world.workers[0].bits_set.get() == 1);
  const std::uint64_t changes = world.keyspace.structure_changes();
  world.send({"SETBIT", "k", "0", "0"});
  CHECK(world.workers[0].bits_set.get() == 1);
  CHECK(world.keyspace.structure_changes() == changes + 1);
}

TEST_CASE("a string that is read and changed counts one hit, and a missing one one miss", "[command]") {
  World world;
  world.send({"SET", "k", "ab"});
  CHECK(world.send({"GETEX", "k", "EX", "100"}) == "$ab");
  CHECK(world.workers[0].key_hits.get() == 1);
  CHECK(world.send({"GETDEL", "k"}) == "$ab");
  CHECK(world.workers[0].key_hits.get() == 2);
  CHECK(world.send({"GETEX", "k", "EX", "0"}) == "$null");
  CHECK(world.send({"GETDEL", "k"}) == "$null");
  CHECK(world.workers[0].key_misses.get() == 2);
}

// A job puts a long string, and other clients run before that.
TEST_CASE("a long string is put only where NX and XX are still right", "[command]") {
  World world;
  const std::string bytes(2'000'000, 'x');
  const auto told = [&](std::size_t at, const Result<void>& outcome) {
    resp::Reply reply;
    world.adoptions.waiting.at(at).adoption.answer(reply, outcome);
    return readable(reply.bytes());
  };
  world.send({"SET", "k", bytes, "NX"});
  world.send({"SETNX", "k", bytes});
  world.send({"SET", "k", bytes});
  world.send({"SET", "k", "short"});
  world.send({"SET", "k", bytes, "XX"});
  REQUIRE(world.adoptions.waiting.size() == 4);
  CHECK_FALSE(world.adoptions.waiting[0].adoption.replace);
  CHECK(told(0, fail(Errc::key_exists)) == "$null");
  CHECK(told(0, {}) == "+OK");
  CHECK_FALSE(world.adoptions.waiting[1].adoption.replace);
  CHECK(told(1, fail(Errc::key_exists)) == ":0");
  CHECK(told(1, {}) == ":1");
  CHECK(world.adoptions.waiting[2].adoption.replace);
  CHECK_FALSE(world.adoptions.waiting[2].adoption.still_wanted);
  REQUIRE(world.adoptions.waiting[3].adoption.still_wanted);
  CHECK(world.adoptions.waiting[3].adoption.still_wanted());
  world.send({"DEL", "k"});
  CHECK_FALSE(world.adoptions.waiting[3].adoption.still_wanted());
  CHECK(told(3, fail(Errc::no_such_key)) == "$null");
}

// As the adopter does it, with the gate closed.
Result<void> adopt_first(World& world) {
  command::Adoption& adoption = world.adoptions.waiting.at(0).adoption;
  if (adoption.still_wanted && !adoption.still_wanted()) return fail(Errc::no_such_key);
  auto made = adoption.make({.limits = world.keyspace.machine_limits(),
                             .hold = [](std::uint64_t) { return Result<void>(); },
                             .go_on = {}});
  keyspace::Mutator mutator(world.keyspace, nullptr);
  auto outcome =
      mutator.adopt({.database = adoption.database, .key = adoption.key}, *made, adoption.deadline);
  if (outcome && adoption.adopted) adoption.adopted();
  return outcome;
}

std::string answer_first(World& world, const Result<void>& outcome) {
  resp::Reply reply;
  world.adoptions.waiting.at(0).adoption.answer(reply, outcome);
  reply.fill_whole();
  std::string told = readable(reply.bytes());
  world.adoptions.waiting.clear();
  return told;
}

TEST_CASE("GETSET and SET GET of a long string answer what is under the key when it is replaced",
          "[command]") {
  World world;
  const std::string bytes(2'000'000, 'x');
  const auto ask = [&](int which) {
    return which == 0 ? world.send({"GETSET", "k", bytes}) : world.send({"SET", "k", bytes, "GET"});
  };
  const int which = GENERATE(0, 1);
  world.send({"SET", "k", "before"});
  ask(which);
  REQUIRE(world.adoptions.waiting.size() == 1);
  SECTION("another string") {
    world.send({"SET", "k", "meanwhile"});
    const auto outcome = adopt_first(world);
    CHECK(answer_first(world, outcome) == "$meanwhile");
    CHECK(world.send({"STRLEN", "k"}) == ":2000000");
  }
  SECTION("an empty string") {
    world.send({"SET", "k", ""});
    const auto outcome = adopt_first(world);
    CHECK(answer_first(world, outcome) == "$");
  }
  SECTION("nothing") {
    world.send({"DEL", "k"});
    const auto outcome = adopt_first(world);
    CHECK(answer_first(world, outcome) == "$null");
    CHECK(world.send({"STRLEN", "k"}) == ":2000000");
  }
  SECTION("a filter, which stays") {
    world.send({"DEL", "k"});
    world.send({"BF.ADD", "k", "a"});
    const auto outcome = adopt_first(world);
    CHECK(answer_first(world, outcome).starts_with("-WRONGTYPE"));
    CHECK(world.send({"BF.EXISTS", "k", "a"}) == ":1");
  }
  SECTION("a long string") {
    const auto first = adopt_first(world);
    CHECK(answer_first(world, first) == "$before");
    ask(which);
    const auto second = adopt_first(world);
    CHECK(answer_first(world, second) == "$" + bytes);
  }
}

// The string is in the reply when it is long, and its key holds something else by then.
TEST_CASE("GETSET and SET GET answer a long string that a short one replaces, and copy it as it leaves",
          "[command]") {
  World world;
  const std::string bytes(2'000'000, 'x');
  const auto make = [&] {
    world.send({"DEL", "k"});
    for (int i = 0; i < 2; ++i) world.send({"APPEND", "k", bytes.substr(0, 1'000'000)});
  };
  const std::vector<std::vector<std::string_view>> requests{{"GETSET", "k", "short"},
                                                            {"SET", "k", "short", "GET"},
                                                            {"SET", "k", "short", "XX", "GET"},
                                                            {"SET", "k", "gone", "GET", "PXAT", "1"}};
  for (const auto& request : requests) {
    make();
    CHECK(world.send_words("a", request) == "$" + bytes);
    CHECK(world.bytes_later == bytes.size() + 2);
    CHECK(world.send({"GET", "k"}) == (request[2] == "gone" ? "$null" : "$short"));
  }
  make();
  CHECK(world.send({"SET", "k", "short", "NX", "GET"}) == "$" + bytes);
  CHECK(world.send({"STRLEN", "k"}) == ":2000000");
  CHECK(world.adoptions.waiting.empty());
}

TEST_CASE("a long string is not copied before it leaves, also if its key has gone meanwhile", "[command]") {
  World world;
  world.send({"SETRANGE", "k", "0", std::string(1 << 20, 'x')});
  CHECK(world.send({"GET", "k"}).size() == 1 + (1 << 20));
  CHECK(world.bytes_later == 0);
  world.send({"APPEND", "k", "x"});
  CHECK(world.send({"GET", "k"}).size() == 2 + (1 << 20));
  CHECK(world.bytes_later == 3 + (1 << 20));
  World::Connection& client = world.connection("a");
  const std::vector<std::string_view> words{"GETDEL", "k"};
  RunMode mode{.now = world.now, .steady_now = world.steady_now, .alone = true};
  const auto outcome = world.dispatcher.run({.client = client.client,
                                             .reply = client.reply,
                                             .spec = row_for(words),
                                             .words = words,
                                             .partial = client.partial},
                                            mode);
  CHECK(outcome.next == Next::done);
  CHECK(client.reply.bytes() == "$1048577\r\n");
  world.send_from("b", {"SET", "k", "new"});
  client.reply.fill_whole();
  CHECK((client.reply.bytes() == "$1048577\r\n" + std::string(1048577, 'x') + "\r\n"));
  client.reply.truncate(0);
  CHECK(world.send({"GET", "k"}) == "$new");
}

TEST_CASE("MGET copies long strings as they leave", "[command]") {
  World world;
  const std::string half(600'000, 'x');
  world.send({"SET", "h", half});
  world.send({"SET", "s", "short"});
  world.send({"BF.ADD", "f", "x"});
  CHECK(world.send({"MGET", "h", "s", "f", "none"}) == "*[$" + half + ", $short, $null, $null]");
  CHECK(world.bytes_later == 0);
  CHECK(world.workers[0].key_hits.get() == 3);
  CHECK(world.workers[0].key_misses.get() == 1);
  CHECK(world.send({"MGET", "h", "s", "h", "f", "none"}) ==
        "*[$" + half + ", $short, $" + half + ", $null, $null]");
  CHECK(world.bytes_later > 2 * half.size());
  CHECK(world.workers[0].key_hits.get() == 7);
  CHECK(world.workers[0].key_misses.get() == 2);
  world.send({"HELLO", "3"});
  CHECK(world.send({"MGET", "h", "none", "h"}) == "*[$" + half + ", _, $" + half + "]");
  CHECK(world.alone_runs == 3);
}

TEST_CASE("MGET of more than 1024 keys runs in parts", "[command]") {
  World world;
  world.send({"SET", "s", "short"});
  world.send({"SET", "l", std::string(2000, 'x')});
  std::vector<std::string_view> words{"MGET"};
  words.resize(1 + whole_items_max, "s");
  world.send_words("a", words);
  CHECK(world.parts_before_the_last == 0);
  words.insert(words.end(), {"l", "none"});
  const std::string reply = world.send_words("a", words);
  CHECK(world.parts_before_the_last == 4);
  CHECK(world.workers[0].key_hits.get() == 2 * whole_items_max + 1);
  CHECK(reply.starts_with("*[$short, $short"));
  CHECK(reply.ends_with("$short, $" + std::string(2000, 'x') + ", $null]"));
  world.send({"MULTI"});
  world.send_words("a", words);
  CHECK(world.send({"EXEC"}) == "*[" + reply + "]");
  // The request ends with the part that finds that the reply is too long.
  world.options.clients_memory_max = 2000;
  CHECK(world.send_words("a", words).starts_with("-ERR the strings together are longer"));
  CHECK(world.parts_before_the_last == 1);
}

TEST_CASE("SET copies a long string in parts, before it closes the gate", "[command]") {
  World world;
  const std::string bytes(10 * part_bytes_max, 'x');
  int alone_before_the_last = 0;
  world.between_parts = [&](int) { alone_before_the_last = world.alone_runs; };
  const std::vector<std::vector<std::string_view>> requests{
      {"SET", "k", bytes},          {"SET", "k", bytes, "NX"}, {"SETNX", "k", bytes},
      {"SETEX", "k", "100", bytes}, {"GETSET", "k", bytes},    {"PSETEX", "k", "100", bytes}};
  for (const auto& request : requests) {
    const int alone_before = world.alone_runs;
    world.send_words("a", request);
    CHECK(world.parts_before_the_last == 9);
    CHECK(alone_before_the_last == alone_before);
    CHECK(world.alone_runs == alone_before + 1);
    const auto outcome = adopt_first(world);
    REQUIRE(outcome);
    CHECK((world.send({"GET", "k"}) == "$" + bytes));
    world.adoptions.waiting.clear();
    if (request[0] != "SETEX") world.send({"DEL", "k"});
  }
  // What is answered without a change needs no copy.
  world.send({"SET", "k", "taken"});
  world.send({"SET", "k", bytes, "NX"});
  CHECK(world.parts_before_the_last == 0);
  world.send({"SET", "none", bytes, "XX"});
  CHECK(world.parts_before_the_last == 0);
  world.send({"SET", "k", std::string(1 << 20, 'x')});
  CHECK(world.parts_before_the_last == 0);
}

TEST_CASE("a transaction does not copy a long string that its reply has no room for", "[command]") {
  World world;
  world.options.clients_memory_max = 3'000'000;
  for (int i = 0; i < 2; ++i) world.send({"APPEND", "k", std::string(1'000'000, 'x')});
  world.send({"MULTI"});
  for (int i = 0; i < 3; ++i) world.send({"GET", "k"});
  const std::string reply = world.send({"EXEC"});
  CHECK(reply.find("-ERR the strings have no room: the replies of a transaction") != std::string::npos);
  CHECK(reply.size() < 3'000'000);
}

TEST_CASE("a transaction or script answers strings up to its bound, and GETDEL removes what it answers",
          "[command]") {
  World world;
  world.send({"SET", "k", std::string(10'000, 'x')});
  const std::vector<std::vector<std::string_view>> requests{{"GET", "k"},
                                                            {"MGET", "k"},
                                                            {"GETRANGE", "k", "0", "-1"},
                                                            {"GETDEL", "k"},
                                                            {"GETSET", "k", "y"},
                                                            {"SET", "k", "y", "GET"},
                                                            {"GETEX", "k", "PXAT", "1"}};
  for (const auto& request : requests) {
    // Behind "*1\r\n", with room for what stands around a string.
    world.options.clients_memory_max = 10'000 + 4 + 32;
    world.send({"SET", "k", std::string(10'000, 'x')});
    --world.options.clients_memory_max;
    world.send({"MULTI"});
    world.send_words("a", request);
    CHECK(world.send({"EXEC"}).starts_with("*[-ERR the strings have no room"));
    CHECK(world.send({"STRLEN", "k"}) == ":10000");
    ++world.options.clients_memory_max;
    world.send({"MULTI"});
    world.send_words("a", request);
    CHECK(world.send({"EXEC"}).find(std::string(10'000, 'x')) != std::string::npos);
  }
  world.options.clients_memory_max = 0;
  static_assert(transaction_reply_bytes_max == 67108864);
  world.send({"SETRANGE", "k", "67108863", "x"});
  world.send({"MULTI"});
  world.send({"GET", "k"});
  CHECK(world.send({"EXEC"}).starts_with("*[-ERR the strings have no room"));
  CHECK(world.send({"EVAL", "return redis.call('GET', 'k')", "0"})
            .starts_with("-ERR the strings have no room"));
}

TEST_CASE("MSET and BITFIELD have a bound, because all clients wait for them", "[command]") {
  World world;
  static_assert(at_once_max == 65536);
  std::vector<std::string_view> words{GENERATE("MSET", "MSETNX")};
  for (std::size_t at = 0; at < at_once_max; ++at) words.insert(words.end(), {"k", "v"});
  CHECK(world.send_words("a", words) == (words[0] == "MSET" ? "+OK" : ":1"));
  words.insert(words.end(), {"k", "v"});
  CHECK(world.send_words("a", words) == "-ERR MSET takes at most 65536 keys; send several of them");
  words = {"BITFIELD", "k"};
  for (std::size_t at = 0; at < at_once_max; ++at) words.insert(words.end(), {"GET", "u8", "0"});
  CHECK(world.send_words("a", words).starts_with("*[:118, :118"));
  words.insert(words.end(), {"GET", "u8", "0"});
  CHECK(world.send_words("a", words) == "-ERR BITFIELD takes at most 65536 operations; send several of them");
}

TEST_CASE("BITFIELD reads every width at every position", "[command]") {
  World world;
  std::string bytes;
  for (int at = 0; at < 11; ++at) bytes.push_back(static_cast<char>(at * 89 + 37));
  world.send({"SET", "k", bytes});
  const auto bit = [&](std::size_t at) {
    return at < 8 * bytes.size() && (static_cast<unsigned char>(bytes[at / 8]) >> (7 - at % 8) & 1) != 0;
  };
  for (std::size_t width = 1; width <= 64; ++width) {
    for (std::size_t position = 0; position < 8 * (bytes.size() + 1); ++position) {
      std::uint64_t number = 0;
      for (std::size_t at = 0; at < width; ++at) number = number << 1 | (bit(position + at) ? 1 : 0);
      const std::uint64_t unused = 64 - width;
      const auto with_sign = static_cast<std::int64_t>(number << unused) >> unused;
      const std::string where = std::to_string(position);
      const std::string type = "i" + std::to_string(width);
      CHECK(world.send({"BITFIELD", "k", "GET", type, where}) == "*[:" + std::to_string(with_sign) + "]");
      if (width == 64) continue;
      CHECK(world.send({"BITFIELD_RO", "k", "GET", "u" + type.substr(1), where}) ==
            "*[:" + std::to_string(number) + "]");
    }
  }
}

TEST_CASE("BITOP takes many sources in a job, and no more than 1024 of them", "[command]") {
  World world;
  world.send({"SET", "s", std::string(20'000, 'a')});
  std::vector<std::string_view> request{"BITOP", "OR", "d"};
  request.resize(3 + 50, "s");
  CHECK(world.send_words("a", request) == ":20000");
  request.resize(3 + 60, "s");
  world.send_words("a", request);
  CHECK(world.outcome.next == command::Next::wait);
  const auto outcome = adopt_first(world);
  CHECK(answer_first(world, outcome) == ":20000");
  request.resize(3 + 1025, "s");
  CHECK(world.send_words("a", request) == "-ERR BITOP takes at most 1024 source keys");
  world.send({"SET", "s", std::string(32'768, 'a')});
  for (const std::size_t count : {std::size_t{32}, std::size_t{33}}) {
    world.send({"MULTI"});
    request.resize(3 + count);
    world.send_words("a", request);
    CHECK(world.send({"EXEC"}) ==
          (count == 32 ? "*[:32768]"
                       : "*[-ERR the sources have more than 1048576 bytes together; send the command outside "
                         "of a transaction or script]"));
  }
}

TEST_CASE("a job's result does not appear after a flush or a swap of its database", "[command]") {
  World world;
  for (const char* key : {"s", "t"}) world.send({"SETBIT", key, "1000000", "1"});
  world.send({"BF.RESERVE", "f", "0.001", "1000000"});
  const std::vector<std::string_view> request =
      GENERATE(std::vector<std::string_view>{"BITOP", "OR", "d", "s", "t"},
               std::vector<std::string_view>{"COPY", "f", "d"});
  world.send_words("a", request);
  REQUIRE(world.adoptions.waiting.size() == 1);
  const auto& still_wanted = world.adoptions.waiting[0].adoption.still_wanted;
  REQUIRE(still_wanted);
  CHECK(still_wanted());
  SECTION("FLUSHALL") {
    world.send({"FLUSHALL"});
  }
  SECTION("FLUSHDB") {
    world.send({"FLUSHDB"});
  }
  SECTION("SWAPDB") {
    world.send({"SWAPDB", "0", "1"});
  }
  CHECK_FALSE(still_wanted());
  const std::string told = answer_first(world, fail(Errc::no_such_key));
  CHECK(told == (request[0] == "COPY" ? ":0"
                                      : "-ERR the database was flushed or swapped while the command ran; "
                                        "the command has changed nothing"));
}

TEST_CASE("a long string is answered also when memory is short", "[command]") {
  World world;
  const std::string bytes(2'000'000, 'x');
  for (int i = 0; i < 2; ++i) world.send({"APPEND", "k", std::string(1'000'000, 'x')});
  world.keyspace.set_memory_max(1);
  CHECK((world.send({"GET", "k"}) == "$" + bytes));
  CHECK((world.send({"GETEX", "k", "EX", "100"}) == "$" + bytes));
  CHECK((world.send({"GETDEL", "k"}) == "$" + bytes));
  CHECK(world.send({"EXISTS", "k"}) == ":0");
}

TEST_CASE("a sparse string beyond the mappings of the process is refused, and the server goes on",
          "[command]") {
  World world;
  bloom::limit_string_mappings(4);  // 1 string
  CHECK(world.send({"SETBIT", "a", "4000000", "1"}) == ":0");
  const std::string refused =
      "-ERR the server holds as many strings of 256 KiB or more as vm.max_map_count of the system allows, "
      "and "
      "at most 131072";
  CHECK(world.send({"SETBIT", "b", "4000000", "1"}) == refused);
  CHECK(world.send({"SETRANGE", "b", "300000", "x"}) == refused);
  CHECK(world.send({"SET", "b", std::string(300'000, 'x')}) == refused);
  CHECK(world.send({"EXISTS", "b"}) == ":0");
  CHECK(world.send({"SETBIT", "a", "8000000", "1"}) == ":0");
  CHECK(world.send({"SETBIT", "b", "80000", "1"}) == ":0");
  world.send({"DEL", "a"});
  CHECK(world.send({"SETBIT", "b", "4000000", "1"}) == ":0");
  bloom::limit_string_mappings(std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("MGET answers no more than maxmemory_clients", "[command]") {
  World world;
  world.options.clients_memory_max = 10'000;
  world.send({"SET", "k", std::string(4'000, 'x')});
  CHECK(world.send({"MGET", "k", "k"}).starts_with("*[$"));
  CHECK(world.send({"MGET", "k", "k", "k"}) ==
        "-ERR the strings together are longer than maxmemory-clients; ask for fewer of them at once");
  world.options.clients_memory_max = 0;
  CHECK(world.send({"MGET", "k", "k", "k"}).starts_with("*[$"));
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
