// A script that runs for long, beside the other clients of its worker.
#include <sepal/session/scheduler.hpp>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::session_script_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string busy =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";
const std::string for_ever = request({"EVAL", "while true do end", "0"});
// Looks at the clock a hundred times.
const std::string long_script = request({"EVAL", "for i = 1, 1e7 do end return 7", "0"});
const std::string long_writer =
    request({"EVAL", "redis.call('BF.ADD', 'k', 'x') for i = 1, 1e7 do end return 7", "0"});

struct ScriptWorld : SchedulerWorld {
  ScriptWorld() : SchedulerWorld(2) { services.options.busy_reply_threshold = std::chrono::milliseconds(1); }
  // Turns until the script has ended.
  int finish_script() {
    int turns = 0;
    for (; environment.dispatcher.suspended_client() != 0; ++turns) turn({});
    turn({});
    return turns;
  }
  StandingClock::Slow slow{std::chrono::milliseconds(1)};
};

TEST_CASE("a long script runs in slices, and other clients are told that it runs") {
  ScriptWorld world;
  world.turn({ping + long_script + ping, ""});
  CHECK(world.state(0) == State::waiting);
  CHECK(world.scheduler.has_more());
  world.turn({"", ping});
  CHECK(world.received(1) == busy);
  // The reply before the script waits with it: its change may be a part of the script's group.
  CHECK(world.received(0).empty());
  CHECK(world.finish_script() > 3);
  CHECK(world.received(0) == "+PONG\r\n:7\r\n+PONG\r\n");
  world.turn({"", ping});
  CHECK(world.received(1) == "+PONG\r\n");
  CHECK(!world.scheduler.has_more());
}

TEST_CASE("the reply of a long script waits for the journal") {
  ScriptWorld world;
  world.ground.recording.awaited = 100;
  world.turn({long_writer, ""});
  world.finish_script();
  CHECK(world.state(0) == State::held);
  CHECK(world.received(0).empty());
  world.ground.journal.durable = 100;
  ++world.progress;
  world.turn({});
  CHECK(world.received(0) == ":7\r\n");
}

TEST_CASE("a client that goes while its script runs is let go when the script has ended") {
  ScriptWorld world;
  world.turn({long_writer, ""});
  SECTION("its peer is gone") {
    world.happens(broken);
  }
  SECTION("it is killed") {
    world.scheduler.kill(1);
  }
  CHECK(world.gone == 0);
  world.finish_script();
  CHECK(world.gone == 1);
  world.turn({"", request({"BF.EXISTS", "k", "x"})});
  CHECK(world.received(1) == ":1\r\n");
}

TEST_CASE("SCRIPT KILL by another client ends a script") {
  ScriptWorld world;
  world.turn({for_ever, ""});
  world.turn({"", request({"SCRIPT", "KILL"})});
  CHECK(world.received(1) == "+OK\r\n");
  world.finish_script();
  CHECK(world.received(0).starts_with("-ERR Script killed by user with SCRIPT KILL"));
}

TEST_CASE("a stop ends a script that has changed nothing, and waits for others") {
  ScriptWorld world;
  SECTION("nothing changed") {
    world.turn({for_ever, ""});
    world.scheduler.stop();
    world.finish_script();
    CHECK(world.received(0).starts_with("-ERR Script killed"));
  }
  SECTION("something changed") {
    world.turn({long_writer, ""});
    world.scheduler.stop();
    world.finish_script();
    CHECK(world.received(0) == ":7\r\n");
  }
  SECTION("something changed, and it does not end") {
    world.turn({request({"EVAL", "redis.call('BF.ADD', 'k', 'x') while true do end", "0"}), ""});
    world.scheduler.stop();
    CHECK(world.scheduler.cut_off() >= 1);
    CHECK(world.scheduler.empty());
  }
  SECTION("a transaction has two that do not end") {
    const std::string script = request({"EVAL", "redis.call('BF.ADD', 'k', 'x') while true do end", "0"});
    world.turn({request({"MULTI"}) + script + script + request({"EXEC"}), ""});
    REQUIRE(world.environment.dispatcher.suspended_client() == 1);
    world.scheduler.stop();
    CHECK(world.scheduler.cut_off() >= 1);
    CHECK(world.scheduler.empty());
  }
}

}  // namespace
}  // namespace sepal::session::session_script_test
