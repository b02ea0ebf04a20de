#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace mirror_commands_test {

using sepal::command::testing::World;
using namespace std::chrono_literals;

namespace {

struct Mirrored : World {
  Mirrored() {
    send({"BF.RESERVE", "s", "0.001", "100"});
    send({"BF.RESERVE", "t", "0.0001", "1000"});
    send({"BF.ADD", "s", "before"});
    CHECK(send({"BF.MIRROR", "s", "t"}) == "+OK");
  }
  [[nodiscard]] std::string status(const char* source = "s") { return send({"BF.MIRROR", source}); }
};

constexpr const char* nothing = "$null";

}  // namespace

TEST_CASE("BF.MIRROR adds the items of one filter to another as well", "[command][mirror]") {
  Mirrored world;
  CHECK(world.send({"BF.ADD", "s", "a"}) == ":1");
  CHECK(world.send({"BF.ADD", "s", "before"}) == ":0");
  CHECK(world.send({"BF.MADD", "s", "b", "a"}) == "*[:1, :0]");
  CHECK(world.send({"BF.INSERT", "s", "ITEMS", "c"}) == "*[:1]");
  CHECK(world.send({"BF.MEXISTS", "t", "a", "b", "c", "before", "d"}) == "*[:1, :1, :1, :1, :0]");
  CHECK(world.send({"BF.ADD", "t", "own"}) == ":1");
  CHECK(world.send({"BF.EXISTS", "s", "own"}) == ":0");
  CHECK(world.status() == "*[+Target, $t, +Items mirrored, :3, +State, +whole, +Reason, +]");
  CHECK(world.send({"HELLO", "3"}) != "");
  CHECK(world.status() == "%{+Target=$t, +Items mirrored=:3, +State=+whole, +Reason=+}");
}

TEST_CASE("the same BF.MIRROR may be repeated, and a different one is refused", "[command][mirror]") {
  Mirrored world;
  world.send({"BF.ADD", "u", "a"});
  CHECK(world.send({"BF.MIRROR", "s", "t"}) == "+OK");
  CHECK(world.send({"BF.MIRROR", "s", "u"}) == "-ERR a filter can be an end of one mirror only");
  CHECK(world.send({"BF.MIRROR", "u", "s"}) == "-ERR a filter can be an end of one mirror only");
  CHECK(world.send({"BF.MIRROR", "t", "u"}) == "-ERR a filter can be an end of one mirror only");
  CHECK(world.send({"BF.MIRROR", "u", "u"}) == "-ERR a filter cannot be its own mirror");
  CHECK(world.send({"BF.MIRROR", "x", "u"}) == "-ERR not found");
  CHECK(world.send({"BF.MIRROR", "u", "x"}) == "-ERR the target of the mirror is not there");
  CHECK(world.send({"BF.MIRROR", "x"}) == "-ERR not found");
  CHECK(world.send({"BF.MIRROR", "u"}) == nothing);
  for (const char* option : {"OFF", "COMMIT", "ABORT"})
    CHECK(world.send({"BF.MIRROR", "u", option}) == "-ERR the filter has no mirror");
  CHECK(world.send({"BF.MIRROR", "s", "t", "FORCE"}) == "-ERR syntax error");
  CHECK(world.send({"BF.MIRROR", "s", "COMMIT", "NOW"}) == "-ERR syntax error");
  CHECK(world.send({"BF.MIRROR", "s", "COMMIT", "FORCE", "x"}) == "-ERR syntax error");
  CHECK(world.status().starts_with("*[+Target, $t"));
}

TEST_CASE("BF.MIRROR OFF ends the mirror and keeps both filters", "[command][mirror]") {
  Mirrored world;
  CHECK(world.send({"BF.MIRROR", "s", "off"}) == "+OK");
  world.send({"BF.ADD", "s", "a"});
  CHECK(world.send({"BF.CARD", "t"}) == ":0");
  CHECK(world.status() == nothing);
}

TEST_CASE("BF.MIRROR COMMIT replaces the source by the target, like RENAME", "[command][mirror]") {
  Mirrored world;
  world.send({"BF.ADD", "s", "a"});
  SECTION("COMMIT") {
    CHECK(world.send({"BF.MIRROR", "s", "commit"}) == "+OK");
  }
  SECTION("COMMIT FORCE") {
    CHECK(world.send({"BF.MIRROR", "s", "COMMIT", "force"}) == "+OK");
  }
  SECTION("RENAME") {
    CHECK(world.send({"RENAME", "t", "s"}) == "+OK");
  }
  CHECK(world.send({"BF.MEXISTS", "s", "before", "a"}) == "*[:0, :1]");
  CHECK(world.send({"EXISTS", "t"}) == ":0");
  CHECK(world.status() == nothing);
}

TEST_CASE("BF.MIRROR ABORT deletes the target", "[command][mirror]") {
  Mirrored world;
  CHECK(world.send({"BF.MIRROR", "s", "ABORT"}) == "+OK");
  CHECK(world.send({"EXISTS", "s", "t"}) == ":1");
  CHECK(world.status() == nothing);
}

TEST_CASE("a broken mirror is reported, and its target replaces the source only with FORCE",
          "[command][mirror]") {
  World world;
  world.send({"BF.RESERVE", "s", "0.001", "100"});
  world.send({"BF.RESERVE", "t", "0.001", "2", "NONSCALING"});
  world.send({"BF.MIRROR", "s", "t"});
  CHECK(world.send({"INFO", "sepal"}).find("mirrors:1\r\nmirrors_broken:0\r\n") != std::string::npos);
  CHECK(world.send({"BF.MADD", "s", "a", "b", "c", "d"}) == "*[:1, :1, :1, :1]");
  CHECK(world.send({"BF.ADD", "s", "e"}) == ":1");
  CHECK(world.send({"BF.MIRROR", "s"}) ==
        "*[+Target, $t, +Items mirrored, :5, +State, +broken, +Reason, +the target does not scale and is "
        "full]");
  CHECK(world.send({"INFO", "sepal"}).find("mirrors:1\r\nmirrors_broken:1\r\n") != std::string::npos);
  const std::string refused =
      "-ERR the mirror is broken: the target does not scale and is full; say BF.MIRROR source COMMIT FORCE "
      "to do "
      "it all the same";
  CHECK(world.send({"BF.MIRROR", "s", "COMMIT"}) == refused);
  CHECK(world.send({"RENAME", "t", "s"}) == refused);
  CHECK(world.send({"RENAMENX", "t", "s"}) == ":0");
  CHECK(world.send({"COPY", "t", "s", "REPLACE"}) == refused);
  CHECK(world.send({"COPY", "t", "s"}) == ":0");
  CHECK(world.send({"COPY", "t", "elsewhere"}) == ":1");
  CHECK(world.send({"COPY", "t", "s", "DB", "1", "REPLACE"}) == ":1");
  CHECK(world.send({"DEL", "elsewhere"}) == ":1");
  CHECK(world.send({"BF.MIRROR", "s", "t"}) == "-ERR a filter can be an end of one mirror only");
  CHECK(world.send({"BF.CARD", "s"}) == ":5");
  SECTION("forced") {
    CHECK(world.send({"BF.MIRROR", "s", "COMMIT", "FORCE"}) == "+OK");
    CHECK(world.send({"BF.CARD", "s"}) == ":2");
  }
  SECTION("aborted") {
    CHECK(world.send({"BF.MIRROR", "s", "ABORT"}) == "+OK");
    CHECK(world.send({"BF.CARD", "s"}) == ":5");
  }
  SECTION("ended first") {
    CHECK(world.send({"BF.MIRROR", "s", "OFF"}) == "+OK");
    CHECK(world.send({"RENAME", "t", "s"}) == "+OK");
  }
  SECTION("ended first, and copied") {
    CHECK(world.send({"BF.MIRROR", "s", "OFF"}) == "+OK");
    CHECK(world.send({"COPY", "t", "s", "REPLACE"}) == ":1");
  }
  SECTION("renamed to another key, and the mirror follows") {
    CHECK(world.send({"RENAME", "t", "elsewhere"}) == "+OK");
    CHECK(world.send({"RENAME", "elsewhere", "s"}) == refused);
    CHECK(world.send({"BF.MIRROR", "s"}).starts_with("*[+Target, $elsewhere"));
    CHECK(world.send({"BF.MIRROR", "s", "ABORT"}) == "+OK");
  }
  CHECK(world.keyspace.mirrors().empty());
}

TEST_CASE("no other filter may replace a target, but one may replace a source", "[command][mirror]") {
  Mirrored world;
  world.send({"BF.ADD", "u", "a"});
  const std::string reply = world.send({"DUMP", "u"});
  const std::string payload = reply.substr(1);
  const std::string header = world.send({"BF.SCANDUMP", "u", "0"});
  REQUIRE(header.starts_with("*[:1, $"));
  const std::string piece = header.substr(7, header.size() - 8);
  const std::string refused = "-ERR the key is the target of a mirror: say BF.MIRROR source OFF first";
  world.send({"BF.EXPORT", "u", "file"});
  CHECK(world.send({"RESTORE", "t", "0", payload, "REPLACE"}) == refused);
  CHECK(world.send({"COPY", "u", "t", "REPLACE"}) == refused);
  CHECK(world.send({"COPY", "s", "t", "REPLACE"}) == refused);
  CHECK(world.send({"RENAME", "u", "t"}) == refused);
  CHECK(world.send({"RENAME", "s", "t"}) == refused);
  CHECK(world.send({"RENAME", "none", "t"}) == "-ERR no such key");
  CHECK(world.send({"RENAME", "t", "t"}) == "+OK");
  CHECK(world.send({"BF.IMPORT", "t", "file", "REPLACE"}) == refused);
  CHECK(world.send({"BF.LOADCHUNK", "t", "1", piece}) == refused);
  CHECK(world.send({"COPY", "u", "t"}) == ":0");
  CHECK(world.status().starts_with("*[+Target, $t"));
  SECTION("another database has a key of that name") {
    CHECK(world.send({"COPY", "u", "t", "DB", "1", "REPLACE"}) == ":1");
    CHECK(world.status().starts_with("*[+Target, $t"));
  }
  SECTION("the mirror is ended first") {
    CHECK(world.send({"BF.MIRROR", "s", "OFF"}) == "+OK");
    CHECK(world.send({"RESTORE", "t", "0", payload, "REPLACE"}) == "+OK");
  }
  SECTION("the source is replaced") {
    CHECK(world.send({"RESTORE", "s", "0", payload, "REPLACE"}) == "+OK");
    CHECK(world.status() == nothing);
  }
  SECTION("the source is replaced by the target") {
    CHECK(world.send({"COPY", "t", "s", "REPLACE"}) == ":1");
    CHECK(world.status() == nothing);
  }
  SECTION("the target is past its deadline") {
    world.send({"PEXPIRE", "t", "1"});
    world.now += 5ms;
    CHECK(world.send({"RESTORE", "t", "0", payload}) == "+OK");
  }
}

TEST_CASE("a key that became a target while the adopter made the filter is not replaced",
          "[command][mirror]") {
  Mirrored world;
  using sepal::Errc;
  const auto may = [&](const char* key, bool replace) {
    return sepal::command::may_adopt(world.keyspace, {.database = 0, .key = key}, replace);
  };
  CHECK(may("t", true).error().code == Errc::in_use);
  CHECK(may("t", false).error().code == Errc::key_exists);
  CHECK(may("s", true));
  CHECK(may("none", false));
}

TEST_CASE("a full source gives its target what it refuses, and says so", "[command][mirror]") {
  World world;
  world.send({"BF.RESERVE", "s", "0.001", "2", "NONSCALING"});
  world.send({"BF.RESERVE", "t", "0.001", "1"});
  world.send({"BF.MADD", "s", "a", "b"});
  CHECK(world.send({"BF.ADD", "s", "c"}) == "-ERR non scaling filter is full");
  world.send({"BF.MIRROR", "s", "t"});
  const std::string full = "-ERR non scaling filter is full, but the target of its mirror has the item";
  CHECK(world.send({"BF.MADD", "s", "a", "c", "b", "d"}) == "*[:0, " + full + ", :0, " + full + "]");
  CHECK(world.send({"BF.MEXISTS", "t", "a", "b", "c", "d"}) == "*[:1, :1, :1, :1]");
  CHECK(world.send({"BF.MEXISTS", "s", "a", "b", "c", "d"}) == "*[:1, :1, :0, :0]");
  CHECK(world.send({"BF.ADD", "s", "e"}) == full);
  CHECK(world.send({"BF.INSERT", "s", "ITEMS", "f", "a"}) == "*[" + full + ", :0]");
  CHECK(world.send({"EVAL", "return redis.pcall('BF.ADD', 's', 'g')", "0"}) == full);
  world.send({"MULTI"});
  world.send({"BF.ADD", "s", "h"});
  world.send({"BF.ADD", "s", "i"});
  CHECK(world.send({"EXEC"}) == "*[" + full + ", " + full + "]");
  CHECK(world.send({"BF.MEXISTS", "t", "e", "f", "g", "h", "i"}) == "*[:1, :1, :1, :1, :1]");
  // The target has room for these, so the gate stays open.
  const int alone_runs = world.alone_runs;
  CHECK(world.send({"BF.MADD", "s", "b", "c", "a"}) == "*[:0, " + full + ", :0]");
  CHECK(world.alone_runs == alone_runs);
  CHECK(world.send({"BF.MIRROR", "s", "COMMIT"}) == "+OK");
  CHECK(world.send({"BF.MEXISTS", "s", "a", "b", "c", "d", "e", "f", "g", "h", "i"}) ==
        "*[:1, :1, :1, :1, :1, :1, :1, :1, :1]");
}

TEST_CASE("a long request to a full source gives all of its items to the target", "[command][mirror]") {
  World world;
  world.send({"BF.RESERVE", "s", "0.001", "2", "NONSCALING"});
  world.send({"BF.RESERVE", "t", "0.000001", "4000"});
  std::vector<std::string> items;
  for (int i = 0; i < 1500; ++i) items.push_back(std::to_string(i));
  std::vector<std::string_view> words{"BF.MADD", "s"};
  words.insert(words.end(), items.begin(), items.end());
  // Without a mirror the answer ends with the item that is refused.
  CHECK(world.send_words("a", words) == "*[:1, :1, -ERR non scaling filter is full]");
  world.send({"BF.MIRROR", "s", "t"});
  static_cast<void>(world.send_words("a", words));
  CHECK(world.send({"BF.CARD", "t"}) == ":1500");
}

TEST_CASE("a source that may not grow gives its target what it refuses", "[command][mirror]") {
  World world({.layers_max = 1});
  world.send({"BF.RESERVE", "s", "0.001", "1"});
  world.send({"BF.RESERVE", "t", "0.001", "100"});
  world.send({"BF.MIRROR", "s", "t"});
  CHECK(world.send({"BF.MADD", "s", "a", "b"}) ==
        "*[:1, -ERR problem inserting into filter: it has as many layers as layers_max allows (1), but the "
        "target of its mirror has the item]");
  CHECK(world.send({"BF.MEXISTS", "t", "a", "b"}) == "*[:1, :1]");
  // Above maxmemory the request is refused as a whole, and reaches neither filter.
  world.keyspace.set_memory_max(1);
  CHECK(world.send({"BF.ADD", "s", "c"}).starts_with("-OOM"));
  CHECK(world.send({"BF.EXISTS", "t", "c"}) == ":0");
}

TEST_CASE("a question about a mirror is answered where no change is", "[command][mirror]") {
  Mirrored world;
  world.services.logs = world.recording.all_logs();
  world.recording.admission = sepal::keyspace::Admission::refused;
  CHECK(world.status().starts_with("*[+Target, $t"));
  CHECK(world.send({"BF.MIRROR", "s", "OFF"}).starts_with("-MISCONF"));
  CHECK(world.send({"BITFIELD", "k", "GET", "u8", "0"}) == "*[:0]");
  CHECK(world.send({"BITFIELD", "k", "OVERFLOW", "SAT", "GET", "u8", "0"}) == "*[:0]");
  CHECK(world.send({"BITFIELD", "k", "GET", "u8", "0", "SET", "u8", "0", "1"}).starts_with("-MISCONF"));
  CHECK(world.send({"GETEX", "k"}) == "$null");
  CHECK(world.send({"GETEX", "k", "PERSIST"}).starts_with("-MISCONF"));
  CHECK(world.send({"EVAL", "return redis.call('BF.MIRROR', 's')[2]", "0"}) == "$t");
  world.send({"MULTI"});
  CHECK(world.send({"BITFIELD", "k", "GET", "u8", "0"}) == "+QUEUED");
  CHECK(world.send({"GETEX", "k"}) == "+QUEUED");
  CHECK(world.send({"EXEC"}) == "*[*[:0], $null]");
  world.recording.admission = sepal::keyspace::Admission::granted;
  world.keyspace.set_memory_max(1);
  CHECK(world.send({"BITFIELD", "k", "GET", "u8", "0"}) == "*[:0]");
  CHECK(world.send({"BITFIELD", "k", "SET", "u8", "0", "1"}).starts_with("-OOM"));
}

TEST_CASE("a mirror needs the right to read and to write both of its filters", "[command][mirror]") {
  World world;
  for (const char* key : {"in:f", "out:f"}) world.send({"BF.RESERVE", key, "0.001", "100"});
  world.send({"ACL", "SETUSER", "bob", "on", ">pw", "+@all", "%W~out:*", "~in:*"});
  world.send({"ACL", "SETUSER", "ann", "on", ">pw", "+@all", "~in:*"});
  const auto as = [&](const char* user, std::vector<std::string_view> words) {
    world.send_from("b", {"AUTH", user, "pw"});
    return world.send_words("b", words);
  };
  const std::string refused = "-NOPERM No permissions to access a key";
  CHECK(as("bob", {"BF.MIRROR", "out:f", "in:f"}) == refused);
  CHECK(as("bob", {"BF.MIRROR", "in:f", "out:f"}) == refused);
  CHECK(as("bob", {"BF.MIRROR", "out:f"}) == refused);
  CHECK(as("bob", {"BF.MIRROR", "in:f"}) == nothing);
  // Nor may a user end a mirror, or read its target by a COMMIT, that has no right for the target.
  CHECK(world.send({"BF.MIRROR", "in:f", "out:f"}) == "+OK");
  for (const char* option : {"OFF", "COMMIT", "ABORT"}) {
    CHECK(as("ann", {"BF.MIRROR", "in:f", option}) == refused);
    CHECK(as("ann", {"EVAL", "return redis.pcall('BF.MIRROR', 'in:f', ARGV[1])", "0", option}) == refused);
  }
  CHECK(as("ann", {"BF.MIRROR", "in:f", "COMMIT", "FORCE"}) == refused);
  CHECK(world.send({"ACL", "LOG", "1"}).find("$object, $out:f") != std::string::npos);
  // Also where the target has a name that is an option.
  world.send({"RENAME", "out:f", "OFF"});
  CHECK(as("ann", {"BF.MIRROR", "in:f", "COMMIT"}) == refused);
  CHECK(world.send({"BF.MIRROR", "in:f"}).starts_with("*[+Target, $OFF"));
}

TEST_CASE("a mirror ends when its target is past its deadline", "[command][mirror]") {
  Mirrored world;
  world.send({"BF.RESERVE", "u", "0.001", "100"});
  world.send({"PEXPIRE", "t", "1"});
  world.now += 5ms;
  CHECK(world.status() == nothing);
  SECTION("COMMIT") {
    CHECK(world.send({"BF.MIRROR", "s", "COMMIT"}) == "-ERR the filter has no mirror");
  }
  SECTION("ABORT") {
    CHECK(world.send({"BF.MIRROR", "s", "ABORT"}) == "-ERR the filter has no mirror");
  }
  SECTION("another") {
    CHECK(world.send({"BF.MIRROR", "s", "u"}) == "+OK");
  }
  SECTION("again") {
    CHECK(world.send({"BF.MIRROR", "s", "t"}) == "-ERR the target of the mirror is not there");
  }
  CHECK(world.send({"BF.CARD", "s"}) == ":1");
}

TEST_CASE("an answer \"known\" waits for other workers' records, also if only the target knew the item",
          "[command][mirror]") {
  Mirrored world;
  world.services.logs = world.recording.all_logs();
  world.send({"BF.ADD", "t", "a"});
  static_cast<void>(world.dispatcher.take_record());
  CHECK(world.send({"BF.ADD", "s", "a"}) == ":1");
  CHECK(world.dispatcher.take_record().answered_known);
  CHECK(world.send({"BF.ADD", "s", "b"}) == ":1");
  CHECK_FALSE(world.dispatcher.take_record().answered_known);
}

TEST_CASE("a mirrored add records no more than was admitted", "[command][mirror]") {
  const std::string one(500, 'x');
  const std::string other(400, 'y');
  for (const auto& words : std::vector<std::vector<std::string_view>>{{"BF.MIRROR", one, other},
                                                                      {"BF.MIRROR", one, "COMMIT"},
                                                                      {"BF.MIRROR", one, "ABORT"},
                                                                      {"BF.MIRROR", one, "OFF"},
                                                                      {"BF.MADD", one, "a", "b", "c"}}) {
    INFO(words.back());
    World world;
    world.send({"BF.ADD", one, "before"});
    world.send({"BF.RESERVE", other, "0.01", "2", "NONSCALING"});
    if (words.back() != other) world.send({"BF.MIRROR", one, other});
    world.services.logs = world.recording.all_logs();
    CHECK(world.send_words("a", words).front() != '-');
    world.dispatcher.commit();
    std::uint64_t bytes = 0;
    for (const auto& operation : world.recording.operations()) bytes += operation.bytes();
    CHECK(bytes > 0);
    CHECK(bytes <= world.recording.admitted_bytes());
  }
}

}  // namespace mirror_commands_test
