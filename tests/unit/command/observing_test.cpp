// SLOWLOG and LATENCY.
#include <sepal/command/observe/latency_events.hpp>
#include <sepal/command/observe/slow_log.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace sepal::command::observing_test {
namespace {

using Words = std::vector<std::string_view>;
using std::chrono::milliseconds;

}  // namespace

TEST_CASE("an entry of the slow log has at most 32 words of 128 bytes, and says what was left out") {
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

// Also of requests within requests, and of scripts.
TEST_CASE("the slow log shows no secrets") {
  const struct {
    Words words;
    std::string shown;
  } rows[] = {
      {{"auth", "secret"}, "auth (redacted)"},
      {{"AUTH", "user", "secret"}, "AUTH (redacted) (redacted)"},
      {{"HELLO", "3", "auth", "user", "secret", "SETNAME", "n"},
       "HELLO 3 auth (redacted) (redacted) SETNAME n"},
      {{"config", "SET", "hz", "10", "RequirePass", "secret", "timeout", "1"},
       "config SET hz 10 RequirePass (redacted) timeout 1"},
      {{"ACL", "SETUSER", "user", ">secret"}, "ACL SETUSER (redacted) (redacted)"},
      {{"ACL", "LIST"}, "ACL LIST"},
      {{"MIGRATE", "h", "1", "", "0", "5", "AUTH2", "user", "secret", "KEYS", "k"},
       "MIGRATE h 1  0 5 AUTH2 (redacted) (redacted) KEYS k"},
      {{"BF.ADD", "auth", "item"}, "BF.ADD auth item"},
      {{"ACL", "DRYRUN", "bob", "AUTH", "secret"}, "ACL DRYRUN bob AUTH (redacted)"},
      {{"acl", "dryrun", "bob", "HELLO", "3", "AUTH", "user", "secret"},
       "acl dryrun bob HELLO 3 AUTH (redacted) (redacted)"},
      {{"ACL", "DRYRUN", "bob", "CONFIG", "SET", "requirepass", "secret"},
       "ACL DRYRUN bob CONFIG SET requirepass (redacted)"},
      {{"ACL", "DRYRUN", "bob", "ACL", "SETUSER", "ann", ">secret"},
       "ACL DRYRUN bob ACL SETUSER (redacted) (redacted)"},
      {{"ACL", "DRYRUN", "bob", "GET", "k"}, "ACL DRYRUN bob GET k"},
      {{"ACL", "DRYRUN", "bob"}, "ACL DRYRUN bob"},
      {{"COMMAND", "GETKEYS", "AUTH", "user", "secret"}, "COMMAND GETKEYS AUTH (redacted) (redacted)"},
      {{"COMMAND", "GETKEYSANDFLAGS", "MIGRATE", "h", "1", "k", "0", "5", "AUTH", "secret"},
       "COMMAND GETKEYSANDFLAGS MIGRATE h 1 k 0 5 AUTH (redacted)"},
      {{"COMMAND", "GETKEYS", "ACL", "DRYRUN", "bob", "AUTH", "secret"},
       "COMMAND GETKEYS ACL DRYRUN bob AUTH (redacted)"},
      {{"EVAL", "return redis.pcall('AUTH', 'secret')", "0"}, "EVAL (redacted) (redacted)"},
      {{"FUNCTION", "LOAD", "redis.call('AUTH', 'secret')"}, "FUNCTION LOAD (redacted)"},
      {{"EVAL", "return redis.call(unpack(ARGV))", "0", "CONFIG", "SET", "requirepass", "secret"},
       "EVAL return redis.call(unpack(ARGV)) 0 CONFIG SET (redacted) (redacted)"},
      {{"EVALSHA", "0123", "0", "auth", "secret"}, "EVALSHA 0123 0 (redacted) (redacted)"},
      {{"script", "load", "redis.call('acl','setuser','u','>secret')"}, "script load (redacted)"},
      {{"EVAL", "return author + authority + unauth + auth_x", "0"},
       "EVAL return author + authority + unauth + auth_x 0"},
  };
  for (const auto& [words, shown] : rows) {
    std::string text;
    for (const std::string& word : slow_words(words, 1)) text += (text.empty() ? "" : " ") + word;
    CHECK(text == shown);
  }
}

TEST_CASE("the slow log keeps slowlog-max-len entries, and never more than its own limit") {
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

TEST_CASE("an event of LATENCY keeps its last 160 samples, and its longest") {
  LatencyEvents events;
  for (std::size_t i = 0; i <= latency_samples_max; ++i)
    events.add("command", WallTime(std::chrono::seconds(i)), milliseconds(i == 0 ? 99 : 1));
  const auto samples = events.samples("command");
  REQUIRE(samples.size() == latency_samples_max);
  CHECK(samples.front().at == std::chrono::seconds(1));
  CHECK(events.all().front().longest == milliseconds(99));
}

}  // namespace sepal::command::observing_test
