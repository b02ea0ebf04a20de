// CLIENT PAUSE and CLIENT UNPAUSE: which requests wait, and until when.
#include <sepal/command/run/pause.hpp>

#include <chrono>
#include <string>
#include <string_view>

#include "support/catch.hpp"
#include "world.hpp"

namespace sepal::command::pause_test {
namespace {

using std::chrono::milliseconds;
using testing::World;

// Whether a request of another client waits.
bool waits(World& world, std::initializer_list<std::string_view> words) {
  world.send_from("b", words);
  return world.outcome.next == Next::paused;
}

}  // namespace

TEST_CASE("a pause of all requests holds each that would not be refused", "[command]") {
  World world;
  CHECK_FALSE(waits(world, {"PING"}));
  CHECK(world.send({"CLIENT", "PAUSE", "100"}) == "+OK");
  CHECK(waits(world, {"PING"}));
  CHECK(waits(world, {"BF.ADD", "k", "a"}));
  CHECK(waits(world, {"MULTI"}));
  CHECK(waits(world, {"CLIENT", "UNPAUSE"}));
  CHECK_FALSE(waits(world, {"NOSUCH"}));
  CHECK_FALSE(waits(world, {"BF.ADD", "k"}));
  world.steady_now += milliseconds(99);
  CHECK(waits(world, {"PING"}));
  world.steady_now += milliseconds(1);
  CHECK_FALSE(waits(world, {"PING"}));
  CHECK(world.workers[0].commands[command_row(*find_command("ping"))].rejected.get() == 0);
}

TEST_CASE("a pause of writes holds what may change something, and EXEC of a transaction that may",
          "[command]") {
  World world;
  world.send_from("c", {"MULTI"});
  world.send_from("c", {"PING"});
  world.send_from("d", {"MULTI"});
  world.send_from("d", {"BF.ADD", "k", "a"});
  CHECK(world.send({"CLIENT", "PAUSE", "100", "write"}) == "+OK");
  CHECK_FALSE(waits(world, {"PING"}));
  CHECK_FALSE(waits(world, {"BF.EXISTS", "k", "a"}));
  CHECK(waits(world, {"BF.ADD", "k", "a"}));
  CHECK(waits(world, {"DEL", "k"}));
  CHECK_FALSE(waits(world, {"EXEC"}));
  CHECK(world.send_from("c", {"EXEC"}) == "*[+PONG]");
  world.send_from("d", {"EXEC"});
  CHECK(world.outcome.next == Next::paused);
  CHECK(world.send({"CLIENT", "UNPAUSE"}) == "+OK");
  CHECK(world.clients.pauses_ended == 1);
  CHECK(world.send_from("d", {"EXEC"}) == "*[:1]");
}

TEST_CASE("of two pauses the later end counts, and the stricter kind while it runs", "[command]") {
  Pause pause;
  const SteadyTime now{std::chrono::hours(1)};
  pause.begin(true, now, now + milliseconds(100));
  pause.begin(false, now, now + milliseconds(50));
  CHECK(pause.until() == now + milliseconds(100));
  CHECK(pause.of_all());
  pause.begin(false, now + milliseconds(100), now + milliseconds(200));
  CHECK(pause.until() == now + milliseconds(200));
  CHECK_FALSE(pause.of_all());
  pause.end();
  CHECK_FALSE(pause.runs(now));
}

TEST_CASE("CLIENT PAUSE checks its words", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "PAUSE", "x"}) == "-ERR timeout is not an integer or out of range");
  CHECK(world.send({"CLIENT", "PAUSE", "-1"}) == "-ERR timeout is negative");
  CHECK(world.send({"CLIENT", "PAUSE", "9223372036854775807"}) == "-ERR timeout is out of range");
  CHECK(world.send({"CLIENT", "PAUSE", "x", "FOO"}) == "-ERR CLIENT PAUSE mode must be WRITE or ALL");
  CHECK(world.send({"CLIENT", "PAUSE", "0", "ALL"}) == "+OK");
  CHECK_FALSE(waits(world, {"PING"}));
  CHECK(world.send({"CLIENT", "PAUSE", "9000000000000000000", "WRITE"}) == "+OK");
  CHECK(world.services.pause.until() - world.steady_now == pause_max);
}

TEST_CASE("INFO tells of a pause", "[command]") {
  World world;
  const auto says = [&](std::string_view lines) {
    return world.send({"INFO", "clients"}).find(lines) != std::string::npos;
  };
  CHECK(says("paused_reason:none\r\npaused_actions:none\r\npaused_timeout_milliseconds:0\r\n"));
  world.send({"CLIENT", "PAUSE", "1234", "WRITE"});
  CHECK(says("paused_reason:client_pause\r\npaused_actions:write\r\npaused_timeout_milliseconds:1234\r\n"));
}

}  // namespace sepal::command::pause_test
