#include <sepal/command/server/recent.hpp>

#include <chrono>
#include <string>

#include "support/catch.hpp"
#include "world.hpp"

namespace recent_test {

namespace {

using namespace sepal;
using namespace sepal::command;
using namespace std::chrono_literals;
using sepal::command::testing::World;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string told(World& world, const Recent& recent) {
  metrics::JsonWriter to;
  to.begin_object();
  recent.write(world.services, world.steady_now, to);
  to.end_object();
  return std::move(to).finish();
}

}  // namespace

TEST_CASE("what was counted long ago is not told any more") {
  World world;
  world.clients.rejected = 0;
  Recent recent(world.steady_now);
  world.clients.rejected = 3;
  world.send({"GET"});
  world.steady_now += 10s;
  CAPTURE(told(world, recent));
  CHECK(has(told(world, recent),
            R"({"recent":{"seconds":10,"requests":1,"error_replies":1,"rejections":{"maxclients":3,)"));
  recent.sample(world.services, world.steady_now);
  world.steady_now += 291s;
  world.clients.rejected = 4;
  // The start is too long ago, and the sample is the oldest one that counts.
  CAPTURE(told(world, recent));
  CHECK(has(told(world, recent),
            R"("recent":{"seconds":291,"requests":0,"error_replies":0,"rejections":{"maxclients":1,)"));
  recent.sample(world.services, world.steady_now);
  world.steady_now += 10s;
  CHECK(has(told(world, recent),
            R"("seconds":10,"requests":0,"error_replies":0,"rejections":{"maxclients":0,)"));
  world.steady_now += 300s;
  CHECK(has(told(world, recent),
            R"("seconds":0,"requests":0,"error_replies":0,"rejections":{"maxclients":0,)"));
}

TEST_CASE("error replies are told by their first word, and old ones not any more") {
  World world;
  Recent recent(world.steady_now);
  world.send({"GET"});
  world.send({"SET", "text", "x"});
  world.send({"BF.ADD", "text", "x"});
  world.steady_now += 10s;
  CAPTURE(told(world, recent));
  CHECK(has(told(world, recent), R"("errors":{"ERR":1,"WRONGTYPE":1}})"));
  recent.sample(world.services, world.steady_now);
  world.steady_now += 295s;
  world.send({"BF.ADD", "text", "x"});
  CHECK(has(told(world, recent), R"("errors":{"WRONGTYPE":1}})"));
  world.steady_now += 300s;
  CHECK(has(told(world, recent), R"("errors":{}})"));
}

TEST_CASE("counters that were set to zero tell what came behind it") {
  World world;
  world.clients.rejected = 0;
  Recent recent(world.steady_now);
  world.clients.rejected = 9;
  recent.sample(world.services, world.steady_now + 301s);
  world.steady_now += 310s;
  world.clients.rejected = 2;
  CHECK(has(told(world, recent), R"("rejections":{"maxclients":2,)"));
}

TEST_CASE("the times of the last minute are told, the slowest commands first") {
  World world;
  Recent recent(world.steady_now);
  world.send({"PING"});
  const CommandSpec* const ping = world.outcome.spec;
  world.send({"DBSIZE"});
  const CommandSpec* const dbsize = world.outcome.spec;
  CHECK(has(told(world, recent),
            R"("latency":{"seconds":0,"p50_seconds":null,"p99_seconds":null,"commands":[]})"));
  world.dispatcher.count_calls(*dbsize, 1, 5s);
  world.steady_now += 30s;
  recent.sample(world.services, world.steady_now);
  world.dispatcher.count_calls(*ping, 98, 98us);
  world.dispatcher.count_calls(*dbsize, 2, 2ms);
  world.steady_now += 50s;
  const std::string text = told(world, recent);
  CAPTURE(text);
  // A time is the upper bound of its bucket: 1023 ns, and 1048575 ns.
  CHECK(has(text, R"("latency":{"seconds":50,"p50_seconds":1.023e-06,"p99_seconds":0.001048575,"commands":[)"
                  R"({"command":"dbsize","calls":2,"p50_seconds":0.001048575,"p99_seconds":0.001048575},)"
                  R"({"command":"ping","calls":98,"p50_seconds":1.023e-06,"p99_seconds":1.023e-06}]})"));
}

TEST_CASE("a change waits for a save from when it was first seen") {
  World world;
  Recent recent(world.steady_now);
  const auto sample = [&] {
    recent.sample(world.services, world.steady_now);
    return recent.unsaved_for(world.steady_now);
  };
  CHECK(sample() == 0s);
  world.steady_now += 10s;
  world.persistence.state.changes_since = 5;
  CHECK(sample() == 0s);
  world.steady_now += 100s;
  world.persistence.state.changes_since = 9;
  CHECK(sample() == 100s);
  // A save that has ended leaves what was changed while it ran.
  world.persistence.state.saves_done = 1;
  CHECK(sample() == 0s);
  world.steady_now += 10s;
  CHECK(sample() == 10s);
  world.persistence.state.changes_since = 0;
  CHECK(sample() == 0s);
}

}  // namespace recent_test
