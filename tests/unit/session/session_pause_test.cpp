// CLIENT PAUSE: what a session does with requests that have to wait.
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/users/login_delay.hpp>
#include <sepal/command/users/users.hpp>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::session_pause_test {
namespace {

using namespace test;
using Step = Session::Step;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string pause = request({"CLIENT", "PAUSE", "1000"});
const std::string pause_writes = request({"CLIENT", "PAUSE", "1000", "WRITE"});

void pass(std::chrono::nanoseconds time) {
  StandingClock::nanoseconds += time.count();
}

}  // namespace

TEST_CASE("requests behind a pause stay in the input, and run in order when it is over") {
  SessionWorld world;
  const std::string adds = request({"BF.ADD", "k", "a"}) + request({"BF.ADD", "k", "b"}) +
                           request({"BF.ADD", "x", "a"}) + request({"BF.EXISTS", "k", "b"});
  CHECK(world.give(ping + pause + adds + ping) == Step::pause);
  CHECK(world.taken_output() == pong + "+OK\r\n");
  CHECK(world.session.bytes_unparsed() == (adds + ping).size());
  CHECK(world.run() == Step::pause);
  CHECK(world.session.paused_until() - StandingClock::now() == std::chrono::seconds(1));
  pass(std::chrono::seconds(1));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == ":1\r\n:1\r\n:1\r\n:1\r\n" + pong);
}

TEST_CASE("a pause of writes lets reads pass up to the first write of each client") {
  SessionWorld world;
  world.ask(request({"BF.ADD", "k", "a"}));
  CHECK(world.give(pause_writes + repeated(request({"BF.EXISTS", "k", "a"}), 3) + ping +
                   request({"BF.ADD", "k", "b"}) + ping) == Step::pause);
  CHECK(world.taken_output() == "+OK\r\n:1\r\n:1\r\n:1\r\n" + pong);
  pass(std::chrono::seconds(1));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == ":1\r\n" + pong);
}

TEST_CASE("a long request that has begun goes on in a pause, and one that has not waits") {
  SessionWorld world;
  std::vector<std::string> words(20 * command::whole_items_max, "i");
  words[0] = "BF.MADD";
  words[1] = "k";
  std::string_view bytes;
  const std::string sent = request(words);
  for (bytes = sent; !bytes.empty();) {
    world.receive(bytes);
    if (!bytes.empty()) REQUIRE(world.run() != Step::pause);
  }
  Step step = world.run();
  REQUIRE(step == Step::run_again);
  {
    const GateClosed closed(world.ground.gate);
    world.services.pause.begin(true, StandingClock::now(), StandingClock::now() + std::chrono::seconds(1));
  }
  while (step == Step::run_again) step = world.run();
  CHECK(step == Step::read);
  CHECK(world.taken_output().starts_with("*20478\r\n:1\r\n:0\r\n"));
  CHECK(world.give(request({"ECHO", "a"})) == Step::pause);
}

TEST_CASE("like requests of several clients wait together") {
  SchedulerWorld world(3);
  world.turn({request({"BF.ADD", "k", "a"}), "", pause});
  static_cast<void>(world.received(0));
  static_cast<void>(world.received(2));
  world.turn({request({"BF.ADD", "k", "b"}), request({"BF.ADD", "k", "c"}), ""});
  CHECK(world.state(0) == State::paused);
  CHECK(world.state(1) == State::paused);
  CHECK(world.state(2) == State::reading);
  CHECK(world.scheduler.has_paused());
  CHECK(world.scheduler.paused_until() == StandingClock::now() + std::chrono::seconds(1));
  // An end that comes too soon lets them wait again.
  world.scheduler.end_pause(SteadyTime::max());
  CHECK_FALSE(world.scheduler.has_paused());
  CHECK_FALSE(world.scheduler.paused_until().has_value());
  world.turn({});
  CHECK(world.state(0) == State::paused);
  pass(std::chrono::seconds(1));
  world.scheduler.end_pause(SteadyTime::max());
  CHECK(world.scheduler.has_more());
  world.turn({});
  CHECK(world.received(0) == ":1\r\n");
  CHECK(world.received(1) == ":1\r\n");
  CHECK_FALSE(world.scheduler.paused_until().has_value());
}

TEST_CASE("a client whose replies are held when the pause ends asks again") {
  SchedulerWorld world(2);
  world.ground.recording.awaited = 100;
  world.turn({request({"BF.ADD", "k", "a"}) + pause + ping});
  CHECK(world.state() == State::held);
  pass(std::chrono::seconds(1));
  world.scheduler.end_pause(SteadyTime::max());
  world.ground.journal.durable = 100;
  ++world.progress;
  world.turn({});
  world.turn({});
  CHECK(world.received() == ":1\r\n+OK\r\n" + pong);
}

TEST_CASE("a client that is gone does not wait for the end of a pause any more") {
  SchedulerWorld world(2);
  world.turn({pause, ""});
  world.turn({ping, ping});
  world.scheduler.kill(world.id(0));
  pass(std::chrono::seconds(1));
  world.scheduler.end_pause(SteadyTime::max());
  world.turn({});
  CHECK(world.received(1) == pong);
}

TEST_CASE("a client that gives up in a pause gives its place back, and its requests do not run") {
  SchedulerWorld world(2);
  world.turn({"", pause_writes});
  world.turn({request({"BF.ADD", "k", "a"}), ""});
  REQUIRE(world.state(0) == State::paused);
  world.peer(0).ended = true;
  world.happens(peer_gone);
  CHECK(world.peer(0).destroyed);
  pass(std::chrono::seconds(1));
  world.scheduler.end_pause(SteadyTime::max());
  world.turn({"", request({"BF.EXISTS", "k", "a"})});
  CHECK(world.received(1).ends_with(":0\r\n"));
}

TEST_CASE("a stop ends the pause of a client that has not read its replies") {
  SchedulerWorld world(2);
  world.peer(0).room = 0;
  world.turn({ping + pause + ping, ""});
  REQUIRE(world.state(0) == State::paused);
  world.scheduler.stop();
  CHECK(world.state(0) == State::sending);
  world.scheduler.end_pause(SteadyTime::max());
  CHECK(world.state(0) == State::sending);
}

namespace {

// The first client has sent a wrong password after others that failed, so it waits for its answer.
void wait_for_refusal(SchedulerWorld& world) {
  {
    const GateClosed closed(world.ground.gate);
    world.services.users->set_default_password("sesame");
    for (int i = 0; i < command::failed_logins_at_once; ++i)
      static_cast<void>(world.services.login_delay->note(StandingClock::now()));
  }
  world.turn({request({"AUTH", "x"}) + ping});
  REQUIRE(world.state(0) == State::paused);
}

}  // namespace

TEST_CASE("a failed login is answered when it is due, and other clients are served meanwhile") {
  SchedulerWorld world(2);
  wait_for_refusal(world);
  CHECK(world.scheduler.paused_until() == StandingClock::now() + command::failed_login_interval);
  world.turn({"", request({"AUTH", "sesame"}) + ping});
  CHECK(world.received(1) == "+OK\r\n" + pong);
  world.scheduler.end_pause(StandingClock::now());
  world.turn({});
  CHECK(world.state(0) == State::paused);
  pass(command::failed_login_interval);
  world.scheduler.end_pause(StandingClock::now());
  world.turn({});
  world.turn({});
  CHECK(world.received(0).starts_with("-WRONGPASS"));
}

TEST_CASE("a client that leaves while its failed login waits gives its place back") {
  SchedulerWorld world(2);
  wait_for_refusal(world);
  world.peer(0).ended = true;
  world.happens(peer_gone);
  CHECK(world.scheduler.has_paused());  // the time of a client that is gone
  world.scheduler.end_pause(SteadyTime::max());
  CHECK_FALSE(world.scheduler.has_paused());
}

TEST_CASE("a pause of writes and a failed login end each at its own time") {
  SchedulerWorld world(2);
  wait_for_refusal(world);
  {
    const GateClosed closed(world.ground.gate);
    world.services.users->set_default_password("");
    world.services.pause.begin(false, StandingClock::now(), StandingClock::now() + std::chrono::seconds(1));
  }
  world.turn({"", request({"BF.ADD", "k", "a"})});
  REQUIRE(world.state(1) == State::paused);
  CHECK(world.scheduler.paused_until() == StandingClock::now() + command::failed_login_interval);
  pass(command::failed_login_interval);
  world.scheduler.end_pause(StandingClock::now());
  world.turn({});
  CHECK(world.received(0).starts_with("-ERR AUTH"));
  CHECK(world.state(1) == State::paused);
  pass(std::chrono::seconds(1));
  world.scheduler.end_pause(StandingClock::now());
  world.turn({});
  CHECK(world.received(1) == ":1\r\n");
}

}  // namespace sepal::session::session_pause_test
