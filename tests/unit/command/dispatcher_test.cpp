#include <sepal/command/run/dispatcher.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace dispatcher_test {

using sepal::command::Next;
using sepal::command::testing::World;

TEST_CASE("the error for an unknown command repeats the command", "[command]") {
  World world;
  CHECK(world.send({"NOSUCH"}) == "-ERR unknown command 'NOSUCH', with args beginning with: ");
  CHECK(world.send({"NOSUCH", "a", "b c", ""}) ==
        "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b c' '' ");
  CHECK(world.send({""}) == "-ERR unknown command '', with args beginning with: ");
  CHECK(world.send({"NO\r\nSUCH", "a\r\nb"}) ==
        "-ERR unknown command 'NO  SUCH', with args beginning with: 'a  b' ");
  CHECK(world.outcome.spec == nullptr);
}

TEST_CASE("the error for an unknown command repeats at most 128 bytes", "[command]") {
  World world;
  const std::string at_limit(128, 'N');
  CHECK(world.send({at_limit}) == "-ERR unknown command '" + at_limit + "', with args beginning with: ");
  CHECK(world.send({at_limit + "N"}) ==
        "-ERR unknown command '" + at_limit + "', with args beginning with: ");
  // A quoted argument of 125 bytes fills 128 with its blank: no other follows. One byte less, and one
  // follows.
  CHECK(world.send({"x", std::string(125, 'a'), "b"}) ==
        "-ERR unknown command 'x', with args beginning with: '" + std::string(125, 'a') + "' ");
  CHECK(world.send({"x", std::string(124, 'a'), "b"}) ==
        "-ERR unknown command 'x', with args beginning with: '" + std::string(124, 'a') + "' 'b' ");
}

TEST_CASE("names are found in any case, and subcommands only after their command", "[command]") {
  World world;
  CHECK(world.send({"pInG"}) == "+PONG");
  CHECK(world.send({"cLiEnT", "gEtNaMe"}) == "$null");
  CHECK(world.send({"client|id"}).starts_with("-ERR unknown command 'client|id'"));
  CHECK(world.send({"CLIENT", "FOO", "BAR"}) == "-ERR unknown subcommand 'FOO'. Try CLIENT HELP.");
  CHECK(world.send({"COMMAND", "FOO"}) == "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.");
  CHECK(world.send({"CLIENT"}) == "-ERR wrong number of arguments for 'client' command");
  CHECK(world.send({"CLIENT", "ID", "x"}) == "-ERR wrong number of arguments for 'client|id' command");
}

TEST_CASE("a browser's request is cut off without a reply", "[command]") {
  World world;
  CHECK(world.send({"POST", "/", "HTTP/1.1"}).empty());
  CHECK(world.outcome.next == Next::close);
  CHECK(world.send({"host:", "example"}).empty());
  CHECK(world.outcome.next == Next::close);
  CHECK(world.control.http_requests == 2);
  CHECK(world.services.workers[0].http_requests.get() == 2);
}

TEST_CASE("a client without the password may only authenticate, reset and leave", "[command]") {
  World world;
  world.services.users->set_default_password("sesame");
  CHECK(world.send({"PING"}) == "-NOAUTH Authentication required.");
  CHECK(world.send({"BF.ADD", "k", "a"}) == "-NOAUTH Authentication required.");
  CHECK(world.send({"NOSUCH"}).starts_with("-ERR unknown command"));
  CHECK(world.send({"BF.ADD", "k"}) == "-ERR wrong number of arguments for 'bf.add' command");
  // Commands that the reference has, and Sepal has not.
  for (const char* name : {"SUBSCRIBE", "publish", "LPUSH", "migrate", "CF.ADD"})
    CHECK(world.send({name, "x"}) == "-NOAUTH Authentication required.");
  // The reference says this of commands that are not enabled before it asks for the password.
  CHECK(world.send({"DEBUG", "x"}).starts_with("-ERR DEBUG command not allowed."));
  CHECK(world.send({"MODULE", "LOAD", "x"}).starts_with("-ERR MODULE command not allowed."));
  CHECK(world.send({"RESET"}) == "+RESET");
  CHECK(world.send({"AUTH", "sesame"}) == "+OK");
  CHECK(world.send({"SUBSCRIBE", "x"}).starts_with("-ERR Sepal has no channels"));
  CHECK(world.send({"PING"}) == "+PONG");
}

TEST_CASE("of several reasons to refuse a request, the client is told the first as by the reference",
          "[command]") {
  World world;
  world.send({"ACL", "SETUSER", "bob", "on", ">pw", "+multi", "+exec", "~*"});
  world.send({"AUTH", "bob", "pw"});
  CHECK(world.send({"MODULE", "LOAD", "x"}).starts_with("-ERR MODULE command not allowed."));
  CHECK(world.send({"MODULE", "LOAD"}) == "-ERR wrong number of arguments for 'module|load' command");
  CHECK(world.send({"SAVE"}) == "-NOPERM User bob has no permissions to run the 'save' command");
  world.send({"MULTI"});
  CHECK(world.send({"SAVE"}) == "-ERR Command not allowed inside a transaction");
  CHECK(world.send({"PING"}) == "-NOPERM User bob has no permissions to run the 'ping' command");
  CHECK(world.send({"EXEC"}).starts_with("-EXECABORT"));
  world.send({"MULTI"});
  CHECK(world.send({"DEBUG", "x"}).starts_with("-ERR DEBUG command not allowed."));
  CHECK(world.send({"EXEC"}).starts_with("-EXECABORT"));
}

TEST_CASE("during the load, commands that need the data are refused, and others are not", "[command]") {
  World world;
  constexpr std::string_view refused = "-LOADING Redis is loading the dataset in memory";
  world.services.load.running = true;
  CHECK(world.send({"BF.ADD", "k", "a"}) == refused);
  CHECK(world.send({"BF.EXISTS", "k", "a"}) == refused);
  CHECK(world.send({"PING"}) == refused);
  CHECK(world.send({"DBSIZE"}) == refused);
  CHECK(world.send({"SAVE"}) == refused);
  CHECK(world.send({"BGSAVE"}) == refused);
  CHECK(world.send({"MODULE", "LIST"}) == refused);
  CHECK(world.outcome.spec == nullptr);
  CHECK(world.alone_runs == 0);
  CHECK(world.persistence.started == 0);
  CHECK(world.send({"BF.ADD", "k"}) == "-ERR wrong number of arguments for 'bf.add' command");
  CHECK(world.send({"NOSUCH"}).starts_with("-ERR unknown command"));
  CHECK(world.send({"CLIENT", "FOO"}).starts_with("-ERR unknown subcommand"));
  CHECK(world.send({"ECHO", "a"}) == "$a");
  CHECK(world.send({"SELECT", "1"}) == "+OK");
  CHECK(world.send({"CLIENT", "SETNAME", "a"}) == "+OK");
  CHECK(world.send({"CONFIG", "SET", "timeout", "0"}) == "+OK");
  CHECK(world.send({"INFO", "errorstats"}).find("errorstat_LOADING:count=7") != std::string::npos);

  world.services.users->set_default_password("sesame");
  CHECK(world.send_from("late", {"PING"}) == "-NOAUTH Authentication required.");
  CHECK(world.send_from("late", {"AUTH", "sesame"}) == "+OK");
  CHECK(world.send_from("late", {"PING"}) == refused);
  world.services.load.running = false;
  CHECK(world.send_from("late", {"PING"}) == "+PONG");
}

TEST_CASE("requests that could run together are refused one by one while the data is loaded", "[command]") {
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

TEST_CASE("requests, rejections and failures are counted once, however often a handler ran", "[command]") {
  World world;
  const auto& stats = world.workers[0];
  const auto row = [&](std::string_view name) -> const auto& {
    return stats.commands[sepal::command::command_row(*sepal::command::find_command(name))];
  };
  world.send({"BF.ADD", "k", "a"});  // runs twice: the second time alone
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

TEST_CASE("the recorded time belongs to the number of calls that were measured", "[command]") {
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
