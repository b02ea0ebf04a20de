// SLOWLOG and LATENCY.
#include <sepal/command/server/latency_events.hpp>
#include <sepal/command/server/slow_log.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "world.hpp"

namespace sepal::command::observing_test {
namespace {

using testing::World;
using Words = std::vector<std::string_view>;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Tells the dispatcher that a request took so long, as a session does.
void took(World& world, const Words& words, std::chrono::nanoseconds duration, std::uint64_t times = 1) {
  const ClientState& client = world.connection("a").client;
  const CommandSpec& spec = *row_for(words);
  world.dispatcher.count_calls(spec, times, duration);
  if (!world.dispatcher.is_slow(duration)) return;
  world.dispatcher.note_slow({.client = client,
                              .spec = spec,
                              .words = words,
                              .times = times,
                              .duration = duration,
                              .now = world.now});
}

}  // namespace

TEST_CASE("an entry of the slow log has at most 32 words of 128 bytes, and says what was left out",
          "[command]") {
  Words words(slow_words_max, "a");
  CHECK(slow_words(words, 1) == std::vector<std::string>(slow_words_max, "a"));
  words.emplace_back("b");
  const std::vector<std::string> cut = slow_words(words, 1);
  REQUIRE(cut.size() == slow_words_max);
  CHECK(cut[slow_words_max - 2] == "a");
  CHECK(cut.back() == "... (2 more arguments)");
  const std::string longest(slow_word_bytes_max, 'z');
  const std::string longer = longest + "y";
  CHECK(slow_words(Words{longest, longer}, 1) ==
        std::vector<std::string>{longest, longest + "... (1 more bytes)"});
  CHECK(slow_words(Words{"PING"}, 3) ==
        std::vector<std::string>{"PING", "... (2 more requests measured together)"});
}

TEST_CASE("the slow log shows no secrets", "[command]") {
  const auto shown = [](const Words& words) {
    std::string text;
    for (const std::string& word : slow_words(words, 1)) text += (text.empty() ? "" : " ") + word;
    return text;
  };
  CHECK(shown({"auth", "secret"}) == "auth (redacted)");
  CHECK(shown({"AUTH", "user", "secret"}) == "AUTH (redacted) (redacted)");
  CHECK(shown({"HELLO", "3", "auth", "user", "secret", "SETNAME", "n"}) ==
        "HELLO 3 auth (redacted) (redacted) SETNAME n");
  CHECK(shown({"config", "SET", "hz", "10", "RequirePass", "secret", "timeout", "1"}) ==
        "config SET hz 10 RequirePass (redacted) timeout 1");
  CHECK(shown({"ACL", "SETUSER", "user", ">secret"}) == "ACL SETUSER (redacted) (redacted)");
  CHECK(shown({"ACL", "LIST"}) == "ACL LIST");
  CHECK(shown({"MIGRATE", "h", "1", "", "0", "5", "AUTH2", "user", "secret", "KEYS", "k"}) ==
        "MIGRATE h 1  0 5 AUTH2 (redacted) (redacted) KEYS k");
  CHECK(shown({"BF.ADD", "auth", "item"}) == "BF.ADD auth item");
}

TEST_CASE("the slow log shows no secrets of requests within requests, and of scripts", "[command]") {
  const auto shown = [](const Words& words) {
    std::string text;
    for (const std::string& word : slow_words(words, 1)) text += (text.empty() ? "" : " ") + word;
    return text;
  };
  CHECK(shown({"ACL", "DRYRUN", "bob", "AUTH", "secret"}) == "ACL DRYRUN bob AUTH (redacted)");
  CHECK(shown({"acl", "dryrun", "bob", "HELLO", "3", "AUTH", "user", "secret"}) ==
        "acl dryrun bob HELLO 3 AUTH (redacted) (redacted)");
  CHECK(shown({"ACL", "DRYRUN", "bob", "CONFIG", "SET", "requirepass", "secret"}) ==
        "ACL DRYRUN bob CONFIG SET requirepass (redacted)");
  CHECK(shown({"ACL", "DRYRUN", "bob", "ACL", "SETUSER", "ann", ">secret"}) ==
        "ACL DRYRUN bob ACL SETUSER (redacted) (redacted)");
  CHECK(shown({"ACL", "DRYRUN", "bob", "GET", "k"}) == "ACL DRYRUN bob GET k");
  CHECK(shown({"ACL", "DRYRUN", "bob"}) == "ACL DRYRUN bob");
  CHECK(shown({"COMMAND", "GETKEYS", "AUTH", "user", "secret"}) ==
        "COMMAND GETKEYS AUTH (redacted) (redacted)");
  CHECK(shown({"COMMAND", "GETKEYSANDFLAGS", "MIGRATE", "h", "1", "k", "0", "5", "AUTH", "secret"}) ==
        "COMMAND GETKEYSANDFLAGS MIGRATE h 1 k 0 5 AUTH (redacted)");
  CHECK(shown({"COMMAND", "GETKEYS", "ACL", "DRYRUN", "bob", "AUTH", "secret"}) ==
        "COMMAND GETKEYS ACL DRYRUN bob AUTH (redacted)");
  CHECK(shown({"EVAL", "return redis.pcall('AUTH', 'secret')", "0"}) == "EVAL (redacted) (redacted)");
  CHECK(shown({"FUNCTION", "LOAD", "redis.call('AUTH', 'secret')"}) == "FUNCTION LOAD (redacted)");
  CHECK(shown({"EVAL", "return redis.call(unpack(ARGV))", "0", "CONFIG", "SET", "requirepass", "secret"}) ==
        "EVAL return redis.call(unpack(ARGV)) 0 CONFIG SET (redacted) (redacted)");
  CHECK(shown({"EVALSHA", "0123", "0", "auth", "secret"}) == "EVALSHA 0123 0 (redacted) (redacted)");
  CHECK(shown({"script", "load", "redis.call('acl','setuser','u','>secret')"}) == "script load (redacted)");
  CHECK(shown({"EVAL", "return author + authority + unauth + auth_x", "0"}) ==
        "EVAL return author + authority + unauth + auth_x 0");
}

TEST_CASE("the slow log keeps slowlog-max-len entries, and never more than its own limit", "[command]") {
  SlowLog log;
  for (int i = 0; i < 5; ++i) log.add({}, 3);
  CHECK(log.size() == 3);
  CHECK(log.newest(1).front().id == 4);
  CHECK(log.newest(100).back().id == 2);
  log.add({}, 0);
  CHECK(log.size() == 0);
  for (std::size_t i = 0; i <= slow_entries_max; ++i) log.add({}, slow_entries_max + 1);
  CHECK(log.size() == slow_entries_max);
  log.reset();
  SlowEntry half;
  half.words.emplace_back(slow_log_bytes_max / 2 - 1'000, 'x');
  SlowEntry small;
  small.address.assign(1'000, 'x');
  log.add(half, 10);
  log.add(half, 10);
  CHECK(log.size() == 2);
  log.add(small, 10);
  CHECK(log.size() == 3);
  log.add(small, 10);  // the bytes are now too many
  CHECK(log.size() == 3);
  CHECK(log.newest(10).back().id == log.newest(1).front().id - 2);
  log.reset();
  CHECK(log.size() == 0);
}

TEST_CASE("SLOWLOG GET answers number, time, duration, words, address and name", "[command]") {
  World world;
  ClientState& client = world.connection("a").client;
  client.address = "127.0.0.1:1234";
  client.name = "loader";
  took(world, {"BF.ADD", "k", "a"}, microseconds(9'999));
  CHECK(world.send({"SLOWLOG", "LEN"}) == ":0");
  took(world, {"BF.ADD", "k", "a"}, microseconds(10'000));
  took(world, {"BF.ADD", "k", "b"}, microseconds(12'345), 64);
  CHECK(world.send({"SLOWLOG", "LEN"}) == ":2");
  CHECK(world.send({"SLOWLOG", "GET"}) ==
        "*[*[:1, :1700000000, :12345, *[$BF.ADD, $k, $b, $... (63 more requests measured together)], "
        "$127.0.0.1:1234, $loader], *[:0, :1700000000, :10000, *[$BF.ADD, $k, $a], $127.0.0.1:1234, "
        "$loader]]");
  CHECK(world.send({"SLOWLOG", "GET", "0"}) == "*[]");
  CHECK(world.send({"SLOWLOG", "GET", "1"}).starts_with("*[*[:1, "));
  CHECK(world.send({"SLOWLOG", "GET", "-1"}).find("*[:0, ") != std::string::npos);
  for (const std::string_view wrong : {"-2", "x", ""})
    CHECK(world.send({"SLOWLOG", "GET", wrong}) == "-ERR count should be greater than or equal to -1");
  CHECK(world.send({"SLOWLOG", "GET", "1", "2"}) ==
        "-ERR wrong number of arguments for 'slowlog|get' command");
  CHECK(world.send({"SLOWLOG", "HELP"}).starts_with("*[+SLOWLOG <subcommand>"));
  CHECK(world.send({"SLOWLOG", "RESET"}) == "+OK");
  CHECK(world.send({"SLOWLOG", "LEN"}) == ":0");
  took(world, {"PING"}, std::chrono::seconds(1));
  CHECK(world.send({"SLOWLOG", "GET"}).starts_with("*[*[:2, "));
}

TEST_CASE("a negative slowlog-log-slower-than ends the log, 0 logs all, and EXEC is never logged",
          "[command]") {
  World world;
  world.send({"CONFIG", "SET", "slowlog-log-slower-than", "-1"});
  took(world, {"PING"}, std::chrono::hours(1));
  CHECK(world.send({"SLOWLOG", "LEN"}) == ":0");
  world.send({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
  took(world, {"PING"}, microseconds(0));
  took(world, {"EXEC"}, std::chrono::hours(1));
  CHECK(world.send({"SLOWLOG", "LEN"}) == ":1");
}

TEST_CASE("the slow log has the commands of a transaction", "[command]") {
  World world;
  world.send({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
  world.send({"MULTI"});
  world.send({"BF.ADD", "k", "a"});
  world.send({"BF.ADD", "k", "b"});
  world.send({"EXEC"});
  CHECK(world.send({"SLOWLOG", "GET"}).find("*[$BF.ADD, $k, $a, $... (1 more requests") != std::string::npos);
}

TEST_CASE("LATENCY LATEST and HISTORY tell of what took latency-monitor-threshold", "[command]") {
  World world;
  took(world, {"INFO"}, std::chrono::hours(1));
  CHECK(world.send({"LATENCY", "LATEST"}) == "*[]");
  world.send({"CONFIG", "SET", "latency-monitor-threshold", "20"});
  took(world, {"INFO"}, microseconds(19'999));
  CHECK(world.send({"LATENCY", "LATEST"}) == "*[]");
  took(world, {"INFO"}, milliseconds(30));
  took(world, {"INFO"}, milliseconds(25));
  took(world, {"PING"}, milliseconds(20));
  world.now += std::chrono::seconds(1);
  took(world, {"INFO"}, milliseconds(22));
  CHECK(world.send({"LATENCY", "LATEST"}) ==
        "*[*[$command, :1700000001, :22, :30], *[$fast-command, :1700000000, :20, :20]]");
  CHECK(world.send({"LATENCY", "HISTORY", "command"}) == "*[*[:1700000000, :30], *[:1700000001, :22]]");
  CHECK(world.send({"LATENCY", "HISTORY", "nosuch"}) == "*[]");
  CHECK(world.send({"LATENCY", "DOCTOR"}).find("command: 2 samples, the latest 22 ms, the longest 30 ms") !=
        std::string::npos);
  CHECK(world.send({"LATENCY", "RESET", "nosuch"}) == ":0");
  CHECK(world.send({"LATENCY", "RESET", "FAST-command"}) == ":1");
  CHECK(world.send({"LATENCY", "RESET"}) == ":1");
  CHECK(world.send({"LATENCY", "LATEST"}) == "*[]");
  CHECK(world.send({"LATENCY", "HELP"}).starts_with("*[+LATENCY <subcommand>"));
}

TEST_CASE("an event of LATENCY keeps its last 160 samples, and its longest", "[command]") {
  LatencyEvents events;
  for (std::size_t i = 0; i <= latency_samples_max; ++i)
    events.add("command", WallTime(std::chrono::seconds(i)), milliseconds(i == 0 ? 99 : 1));
  const auto samples = events.samples("command");
  REQUIRE(samples.size() == latency_samples_max);
  CHECK(samples.front().at == std::chrono::seconds(1));
  CHECK(events.all().front().longest == milliseconds(99));
}

TEST_CASE("LATENCY GRAPH draws the samples of an event", "[command]") {
  World world;
  CHECK(world.send({"LATENCY", "GRAPH", "command"}) == "-ERR No samples available for event 'command'");
  world.send({"CONFIG", "SET", "latency-monitor-threshold", "1"});
  for (const int duration : {100, 200, 500}) {
    took(world, {"INFO"}, milliseconds(duration));
    world.now += std::chrono::seconds(30);
  }
  CHECK(world.send({"LATENCY", "GRAPH", "command"}) ==
        "$command - high 500 ms, low 100 ms (all time high 500 ms)\n" + std::string(80, '-') +
            "\n  #\n  |\n  |\n_#|\n\n113\nmm0\n  s\n");
}

TEST_CASE("LATENCY HISTOGRAM counts calls up to 1, 2, 4 ... microseconds", "[command]") {
  World world;
  took(world, {"BF.ADD", "k", "a"}, std::chrono::nanoseconds(1023));
  took(world, {"BF.ADD", "k", "a"}, microseconds(3));
  took(world, {"BF.ADD", "k", "a"}, microseconds(30 * 10), 10);
  took(world, {"CONFIG", "GET", "hz"}, microseconds(300));
  const std::string add = "$bf.add, *[$calls, :12, $histogram_usec, *[:1, :1, :4, :2, :33, :12]]";
  const std::string get = "$config|get, *[$calls, :1, $histogram_usec, *[:528, :1]]";
  CHECK(world.send({"LATENCY", "HISTOGRAM", "bf.add", "nosuch", "ping"}) == "*[" + add + "]");
  CHECK(world.send({"LATENCY", "HISTOGRAM", "CONFIG"}) == "*[" + get + "]");
  CHECK(world.send({"LATENCY", "HISTOGRAM"}) == "*[" + add + ", " + get + "]");
  world.send({"CONFIG", "RESETSTAT"});
  CHECK(world.send({"LATENCY", "HISTOGRAM"}) == "*[]");
  took(world, {"PING"}, std::chrono::hours(10'000));
  CHECK(world.send({"LATENCY", "HISTOGRAM"}).starts_with("*[$ping, *[$calls, :1, "));
}

TEST_CASE("latency-tracking no counts no times, and INFO shows the percentiles that are asked for",
          "[command]") {
  World world;
  CHECK(world.send({"CONFIG", "GET", "latency-tracking*"}) ==
        "*[$latency-tracking, $yes, $latency-tracking-info-percentiles, $50 99 99.9]");
  took(world, {"PING"}, microseconds(3));
  CHECK(world.send({"CONFIG", "SET", "latency-tracking-info-percentiles", "0 12.5 100"}) == "+OK");
  CHECK(world.send({"INFO", "latencystats"}).find("_ping:p0=3.071,p12.5=3.071,p100=3.071\r\n") !=
        std::string::npos);
  for (const std::string_view wrong : {"101", "-1", "nan", "50 x"})
    CHECK(world.send({"CONFIG", "SET", "latency-tracking-info-percentiles", wrong}) ==
          "-ERR CONFIG SET failed (possibly related to argument 'latency-tracking-info-percentiles') - "
          "latency-tracking-info-percentiles should contain values between 0.0 and 100.0");
  std::string many;
  for (int i = 0; i < 32; ++i) many += "1 ";
  CHECK(world.send({"CONFIG", "SET", "latency-tracking-info-percentiles", many}) == "+OK");
  CHECK(world.send({"CONFIG", "SET", "latency-tracking-info-percentiles", many + "1"})
            .ends_with("there may be at most 32 percentiles"));
  CHECK(world.send({"CONFIG", "SET", "latency-tracking", "no"}) == "+OK");
  CHECK(world.send({"INFO", "latencystats"}) == "$# Latencystats\r\n");
  world.send({"CONFIG", "RESETSTAT"});
  took(world, {"PING"}, microseconds(3));
  CHECK(world.send({"LATENCY", "HISTOGRAM", "ping"}) == "*[]");
}

}  // namespace sepal::command::observing_test
