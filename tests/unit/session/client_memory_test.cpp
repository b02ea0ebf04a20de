// All memory of a client is counted, and goes with the client.
#include <sepal/session/scheduler.hpp>
#include <sepal/session/session.hpp>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::client_memory_test {
namespace {

using namespace test;
using Step = Session::Step;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

TEST_CASE("replies that the journal holds are counted until they leave") {
  SessionWorld world;
  world.services.logs = world.ground.recording.all_logs();
  world.ground.recording.awaited = 100;
  world.ground.journal.durable = 99;
  REQUIRE(world.give(request({"ECHO", std::string(50'000, 'x')}) + request({"BF.ADD", "k", "a"})) ==
          Step::hold);
  CHECK(world.services.buffers.replies() >= 50'000);
  CHECK(world.session.client().bytes_unsent == world.services.buffers.replies());
  CHECK(world.session.take_grew());
  world.ground.journal.durable = 100;
  world.session.release();
  CHECK(world.services.buffers.replies() == 0);
  CHECK(world.session.client().bytes_unsent == 0);
}

TEST_CASE("the words of a request that has not come whole are counted") {
  SessionWorld world;
  constexpr std::size_t words = 10'000;
  const std::string text = "*10001\r\n" + repeated("$0\r\n\r\n", words);
  CHECK(world.give(text) == Step::read);
  CHECK(world.services.buffers.requests() >= text.size() + words * sizeof(std::string_view));
  CHECK(world.session.client().bytes_of_requests == world.services.buffers.requests());
  std::string_view last = "$0\r\n\r\n";
  world.receive(last);
  while (world.run() == Step::run_again) {
  }
  CHECK(world.services.buffers.requests() == 0);
}

TEST_CASE("what a long request keeps between its parts is counted") {
  SessionWorld world;
  const StandingClock::Slow slow(std::chrono::milliseconds(1));
  const std::string item(2'000'000, 'x');
  const std::string text = request({"ECHO", item});
  std::string_view rest = text;
  std::uint64_t most = 0;
  while (!rest.empty()) {
    world.receive(rest);
    while (world.run() == Step::run_again) most = std::max(most, world.services.buffers.requests());
  }
  CHECK(most > text.size() + item.size() / 2);
  CHECK(world.taken_output().starts_with("$2000000\r\n"));
}

TEST_CASE("long replies of a round do not wait for its other clients") {
  SchedulerWorld world(2);
  const std::string echo = request({"ECHO", std::string(100'000, 'x')});
  world.turn({echo, ping});
  CHECK(world.happenings.sent.front().id == 1);
  CHECK(world.happenings.sent.front().requests_before == 1);
  CHECK(world.received(1) == pong);
}

// A client that runs in the same round is dropped, and then its stream is ready.
TEST_CASE("a client that is dropped within a turn gives its memory back at once") {
  SchedulerWorld world(3);
  const std::string unfinished = request({"ECHO", std::string(5'000, 'x')}).substr(0, 2'000);
  world.turn({unfinished});
  const std::uint64_t before = world.services.buffers.requests();
  CHECK(before >= 2'000);
  bool dropped = false;
  world.buffers_grew = [&] {
    if (std::exchange(dropped, true)) return;
    CHECK(world.scheduler.drop(world.id(0)));
    CHECK_FALSE(world.scheduler.drop(world.id(0)));
    CHECK(world.services.buffers.requests() <= before);
    CHECK(world.left == 1);
    CHECK(world.gone == 0);
  };
  world.scheduler.begin_turn(0);
  for (const std::size_t index : {1, 0, 2}) {
    world.peer(index).to_send = index == 0 ? "x" : unfinished;
    world.scheduler.ready(*world.clients[index], readable);
  }
  world.scheduler.end_turn();
  CHECK(dropped);
  CHECK(world.gone == 1);
  CHECK(world.peer(0).destroyed);
  CHECK(world.services.buffers.requests() == 2 * before);
  world.scheduler.release_replies(0);
  world.turn({"", ping});
  CHECK_FALSE(world.scheduler.empty());
}

TEST_CASE("a dropped client takes what it had not read with it") {
  SchedulerWorld world;
  world.peer().room = 0;
  world.buffers_grew = [&] { CHECK(world.scheduler.drop(world.id())); };
  world.turn({repeated(ping, 100)});
  CHECK(world.services.buffers.total() == 0);
  CHECK(world.gone == 1);
  CHECK(world.scheduler.empty());
}

}  // namespace
}  // namespace sepal::session::client_memory_test
