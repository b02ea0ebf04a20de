// What sessions tell the slow log: the words of the first request of each measurement.
#include <sepal/command/observe/slow_log.hpp>
#include <sepal/command/run/partial_run.hpp>

#include "support/catch.hpp"
#include "unit/session/round_world.hpp"

namespace sepal::session::slow_requests_test {
namespace {

using namespace test;
using Entries = std::vector<std::vector<std::string>>;

// The words of all entries, the oldest one first.
Entries logged(SessionWorld& world) {
  Entries entries;
  for (const command::SlowEntry& entry : world.services.slow_log->newest(command::slow_entries_max))
    entries.insert(entries.begin(), entry.words);
  return entries;
}

std::string more(std::size_t count) {
  return "... (" + std::to_string(count) + " more requests measured together)";
}

// One that runs in parts.
std::string long_request() {
  std::vector<std::string> words(2 * command::whole_items_max, "i");
  words[0] = "BF.MADD";
  words[1] = "k";
  return request(words);
}

}  // namespace

TEST_CASE("the slow log has the first request of each measurement, and how many followed") {
  SessionWorld world;
  world.ground.options.slow_log_microseconds = 0;
  world.session.client().names_to_change().client = "loader";
  world.ask(request({"BF.ADD", "k", "a"}) + request({"BF.ADD", "k", "b"}) +
            request({"BF.ADD", "other", "c"}) + "PING hello\r\n" + request({"BF.EXISTS", "k", "a"}) +
            request({"BF.EXISTS", "other", "a"}));
  CHECK(logged(world) ==
        Entries{{"BF.ADD", "k", "a", more(2)}, {"PING", "hello"}, {"BF.EXISTS", "k", "a", more(1)}});
  CHECK(world.services.slow_log->newest(1).front().client_name == "loader");
}

TEST_CASE("nothing is logged that is faster than the threshold") {
  SessionWorld world;
  const test::StandingClock::Slow slow(std::chrono::microseconds(100));
  world.ground.options.slow_log_microseconds = 200;
  world.ask(request({"PING"}));
  CHECK(logged(world).empty());
  world.ground.options.slow_log_microseconds = 100;
  world.ask(request({"PING"}));
  CHECK(logged(world) == Entries{{"PING"}});
}

TEST_CASE("a long request that runs in parts is one entry of the slow log") {
  SessionWorld world;
  world.ground.options.slow_log_microseconds = 0;
  world.ask(long_request());
  const Entries entries = logged(world);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].size() == command::slow_words_max);
  CHECK(entries[0][2] == "i");
}

// The request is not parsed again: that took milliseconds for a million items.
TEST_CASE("the entry of a long request has the words that the parser had") {
  SessionWorld world;
  world.ground.options.slow_log_microseconds = 0;
  const std::string sent = long_request();
  {
    const test::StandingClock::Slow slow(batch_time_max);
    std::string_view bytes = sent;
    while (!bytes.empty()) {
      world.receive(bytes);
      CHECK(world.run() == (bytes.empty() ? Session::Step::run_again : Session::Step::read));
    }
  }
  world.ground.options.parser.argument_count_max = 10;  // as by a CONFIG SET of another client
  while (world.run() == Session::Step::run_again) {
  }
  const Entries entries = logged(world);
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].size() == command::slow_words_max);
}

TEST_CASE("like requests of several clients are one entry of the slow log") {
  RoundWorld world(3);
  world.ask(request({"BF.RESERVE", "k", "0.01", "100"}));
  world.ground.options.slow_log_microseconds = 0;
  const std::string add = request({"BF.ADD", "k", "a"});
  world.round({add, add, add});
  CHECK(logged(world) == Entries{{"BF.ADD", "k", "a", more(2)}});
}

}  // namespace sepal::session::slow_requests_test
