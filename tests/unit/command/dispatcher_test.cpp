#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/users/users.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace dispatcher_test {

using sepal::command::Next;
using sepal::command::testing::World;

TEST_CASE("requests that could run together are refused one by one while the data is loaded") {
  World world;
  world.services.load.running = true;
  auto& from = world.connection("a");
  const std::string_view words[] = {"BF.ADD", "k", "a"};
  const std::string_view items[] = {"a", "b"};
  const auto* const spec = sepal::command::row_for(words);
  REQUIRE(sepal::command::Dispatcher::runs_together(spec, std::size(words)));
  const auto outcome = world.dispatcher.run_together(
      {.client = from.client, .reply = from.reply, .spec = spec, .words = words, .partial = from.partial},
      items, {.now = world.now, .steady_now = world.steady_now});
  CHECK(outcome.next == Next::need_alone);
  CHECK(from.reply.size() == 0);
}

TEST_CASE("requests, rejections and failures are counted once, however often a handler ran") {
  World world;
  const auto& stats = world.workers[0];
  const auto row = [&](std::string_view name) -> const auto& {
    return stats.commands[sepal::command::command_row(*sepal::command::find_command(name))];
  };
  world.send({"SETBIT", "k", "1", "1"});  // runs twice: the second time alone
  REQUIRE(world.alone_runs == 1);
  CHECK(stats.requests.get() == 1);
  world.send({"BF.ADD", "k"});
  CHECK(row("bf.add").rejected.get() == 1);
  CHECK(world.outcome.spec == nullptr);
  world.send({"BF.INFO", "nokey"});
  CHECK(row("bf.info").failed.get() == 1);
  CHECK(stats.requests.get() == 3);
  CHECK(stats.error_replies.get() == 2);
  CHECK(world.connection("a").client.request_count == 3);
}

TEST_CASE("the recorded time belongs to the number of calls that were measured") {
  World world;
  const auto& ping = *sepal::command::find_command("ping");
  world.dispatcher.count_calls(ping, 4, std::chrono::nanoseconds(400));
  world.dispatcher.count_calls(ping, 0, std::chrono::nanoseconds(400));
  const auto& row = world.workers[0].commands[sepal::command::command_row(ping)];
  CHECK(row.calls.get() == 4);
  CHECK(row.nanoseconds.get() == 400);
  CHECK(row.latency.count(sepal::metrics::Histogram::bucket_of(100)) == 4);
}

}  // namespace dispatcher_test
