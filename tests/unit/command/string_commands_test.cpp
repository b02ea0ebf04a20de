// Commands on strings and their bits: what the recorded exchanges do not say, and what the journal gets.
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/command/run/partial_run.hpp>

#include "support/catch.hpp"
#include "support/values.hpp"
#include "unit/command/world.hpp"

namespace string_commands_test {

namespace {

using namespace sepal;
using command::Next;
using command::row_for;
using command::RunMode;
using test::Recorded;
using Kind = Recorded::Kind;

struct World : command::testing::World {
  World() : command::testing::World(keyspace::KeyspaceOptions{.seed = 1}) {
    services.logs = recording.all_logs();
  }

  // Checks that the request records no more bytes than were admitted before it.
  void check(std::initializer_list<std::string_view> words) {
    dispatcher.commit();  // what requests before this one have recorded
    const std::size_t before = recording.operations().size();
    const std::uint64_t admitted_before = recording.admitted_bytes();
    send(words);
    dispatcher.commit();
    const auto all = recording.operations();
    std::uint64_t bytes = 0;
    for (std::size_t at = before; at < all.size(); ++at) bytes += all[at].bytes();
    CHECK(bytes <= recording.admitted_bytes() - admitted_before);
  }
  std::string text(std::string_view key) {
    const auto* const string = sepal::test::string_at(keyspace, {.database = 0, .key = key});
    REQUIRE(string != nullptr);
    return string->text();
  }
};

}  // namespace

TEST_CASE("the journal is asked for little more room than a change of strings takes") {
  World world;
  constexpr std::uint64_t mb = std::uint64_t{1} << 20;
  std::string last_reply;
  const auto asked = [&](const std::vector<std::string_view>& words) {
    const std::uint64_t before = world.recording.admitted_bytes();
    last_reply = world.send_words("a", words);
    return world.recording.admitted_bytes() - before;
  };
  const std::string longer(10 * mb, 'x');
  // A job puts such a string, and asks for its own room.
  CHECK(asked({"SET", "k", longer}) < 2 * mb);
  CHECK(world.adoptions.waiting.size() == 1);
  // Both are written in parts.
  CHECK(asked({"APPEND", "b", longer}) < 12 * mb);
  CHECK(last_reply == ":10485760");
  CHECK(asked({"SETRANGE", "b", "0", longer}) < 12 * mb);

  const std::string value(keyspace::written_bytes_max, 'v');
  std::vector<std::string> keys;
  for (int at = 0; at < 5000; ++at) keys.push_back("key:" + std::to_string(at));
  std::vector<std::string_view> words{"MSET"};
  for (const std::string& key : keys) words.insert(words.end(), {key, "v"});
  words.insert(words.end(), {"long", value});
  CHECK(asked(words) < 4 * mb);
  CHECK(last_reply == "+OK");
  CHECK(asked({"SET", "k", value}) < 3 * value.size());

  // No string changes in the shared gate. A worker would keep what it asks for there.
  words[0] = "MSETNX";
  words.pop_back();
  CHECK(asked(words) < mb);
}

TEST_CASE("any change of strings has its room in the journal") {
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
      case 0: world.check({"SET", one, bytes(), "PX", number + "1"}); break;
      case 1: world.check({"APPEND", one, bytes()}); break;
      case 2: world.check({"SETRANGE", one, number, bytes()}); break;
      case 3: world.check({"MSET", one, bytes(), other, bytes(), one, bytes()}); break;
      case 4: world.check({"GETSET", one, bytes()}); break;
      case 5: world.check({"BITFIELD", one, "SET", "u8", number, "1", "INCRBY", "i64", "3", "-1"}); break;
      default: world.send({"SET", other, "9"}); world.check({"INCRBY", other, "9223372036854775798"});
    }
  }
}

TEST_CASE("bits that neighbours set and ask for are answered together, as integers") {
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
TEST_CASE("a string that Redis keeps as a number, or has packed, is restored as its bytes") {
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
TEST_CASE("a payload of a string whose contents are wrong is refused") {
  const auto sealed = [](std::string value) {
    value = std::string(1, '\0') + value + std::string("\x0a\0", 2);
    std::uint64_t checksum = rdb::checksum(std::as_bytes(std::span(value)));
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

// The string is in the reply when it is long, and its key holds something else by then.
TEST_CASE("a long string is not copied before it leaves, also if its key has gone meanwhile") {
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

TEST_CASE("BITFIELD reads every width at every position") {
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

TEST_CASE("a sparse string beyond the mappings of the process is refused, and the server goes on") {
  World world;
  strings::limit_mappings(4);  // 1 string
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
  strings::limit_mappings(std::numeric_limits<std::uint64_t>::max());
}

}  // namespace string_commands_test
