// Where the lines of MONITOR come between the replies of their client.

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::monitor_lines_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string monitor = request({"MONITOR"});
const std::string line = "+1.000000 [0 ] \"PING\"\r\n";

// A world whose first client is a monitor.
struct MonitoredWorld : SchedulerWorld {
  explicit MonitoredWorld(std::size_t count = 1) : SchedulerWorld(count) {
    turn({monitor});
    REQUIRE(received() == "+OK\r\n");
  }
  void push() {
    scheduler.push(id(), line);
    scheduler.release_replies(progress);
  }
  [[nodiscard]] std::uint64_t waiting() const { return services.buffers.replies(); }
};

}  // namespace

TEST_CASE("a monitor gets lines, and a client that is none does not") {
  MonitoredWorld world(2);
  world.push();
  CHECK(world.received() == line);
  world.scheduler.push(world.id(1), line);
  world.scheduler.push(99, line);
  CHECK(world.received(1).empty());
  world.turn({request({"RESET"})});
  world.push();
  CHECK(world.received() == "+RESET\r\n");
}

TEST_CASE("lines that a monitor does not read wait, are counted, and leave in order") {
  MonitoredWorld world;
  world.peer().room = 3;
  world.push();
  world.push();
  CHECK(world.received() == line.substr(0, 3));
  CHECK(world.waiting() == 2 * line.size() - 3);
  CHECK(world.bytes_unsent() == 2 * line.size() - 3);
  CHECK((world.peer().watched & writable) != 0);
  world.peer().room = Peer::any_amount;
  world.happens(writable);
  CHECK(world.received() == line.substr(3) + line);
  CHECK(world.waiting() == 0);
  world.peer().room = 0;
  world.push();
  world.scheduler.kill(world.id());
  CHECK(world.waiting() == 0);
}

TEST_CASE("lines do not come between the pieces of a long reply") {
  MonitoredWorld world;
  const std::string bytes(4 * command::whole_bytes_max, 'z');
  world.peer().room = 1000;
  std::string sent = request({"ECHO", bytes});
  for (int turns = 0; turns < 1000 && world.state() != State::sending; ++turns) {
    world.turn({std::exchange(sent, {})});
    world.happens(readable);
  }
  REQUIRE(world.state() == State::sending);
  world.push();
  world.peer().room = Peer::any_amount;
  for (int turns = 0; turns < 1000 && world.waiting() > 0; ++turns) world.happens(writable);
  for (int turns = 0; turns < 1000 && world.state() != State::reading; ++turns) world.turn({});
  CHECK(world.received() == "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n" + line);
  CHECK(world.waiting() == 0);
}

TEST_CASE("lines do not overtake replies that wait for the journal") {
  SchedulerWorld world;
  world.ground.recording.awaited = 100;
  world.turn({request({"BF.ADD", "k", "a"}) + monitor});
  REQUIRE(world.state() == State::held);
  world.scheduler.push(world.id(), line);
  CHECK(world.received().empty());
  CHECK(world.services.buffers.replies() == line.size());
  world.ground.journal.durable = 100;
  world.finish();
  world.turn({});
  CHECK(world.received() == ":1\r\n+OK\r\n" + line);
  CHECK(world.services.buffers.replies() == 0);
}

TEST_CASE("a monitor that waits for a save, or wants no replies") {
  MonitoredWorld world;
  world.turn({request({"SAVE"})});
  world.push();
  CHECK(world.received() == line);
  world.scheduler.answer(world.id(), [](resp::Reply& reply) { reply.ok(); });
  world.finish();
  CHECK(world.received() == "+OK\r\n");
  world.turn({request({"CLIENT", "REPLY", "OFF"})});
  world.push();
  CHECK(world.received().empty());
}

TEST_CASE("a monitor is not closed for being idle, and goes when its stream breaks") {
  MonitoredWorld world;
  world.scheduler.sweep(test::StandingClock::now() + std::chrono::hours(1),
                        {.idle = std::chrono::seconds(1)});
  CHECK(world.gone == 0);
  world.peer().broken = true;
  world.push();
  CHECK(world.gone == 1);
}

}  // namespace sepal::session::monitor_lines_test
