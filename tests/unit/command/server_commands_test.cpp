#include "support/catch.hpp"
#include "world.hpp"

namespace server_commands_test {

using sepal::Errc;
using sepal::command::Next;
using sepal::command::StopMode;
using sepal::command::testing::World;

TEST_CASE("SAVE is answered when the save has ended", "[command]") {
  World world;
  CHECK(world.send({"SAVE"}).empty());
  CHECK(world.outcome.next == Next::wait);
  CHECK(world.persistence.waiting == std::vector<std::uint64_t>{1});
}

TEST_CASE("a save that cannot start says why", "[command]") {
  World world;
  world.persistence.state.running = true;
  CHECK(world.send({"SAVE"}) == "-ERR Background save already in progress");
  CHECK(world.send({"BGSAVE"}) == "-ERR Background save already in progress");
  world.persistence.state.running = false;
  world.persistence.broken.detail = "no space left on /data";
  CHECK(world.send({"SAVE"}) == "-ERR no space left on /data");
  CHECK(world.send({"BGSAVE"}) == "-ERR no space left on /data");
}

TEST_CASE("BGSAVE starts a save and answers at once", "[command]") {
  World world;
  CHECK(world.send({"BGSAVE"}) == "+Background saving started");
  CHECK(world.send({"BGSAVE", "schedule"}) == "+Background saving started");
  CHECK(world.persistence.started == 2);
  CHECK(world.send({"BGSAVE", "FOO"}) == "-ERR syntax error");
  CHECK(world.send({"BGSAVE", "SCHEDULE", "x"}) == "-ERR syntax error");
}

TEST_CASE("BGREWRITEAOF starts a save and answers as the reference", "[command]") {
  World world;
  CHECK(world.send({"BGREWRITEAOF"}) == "+Background append only file rewriting started");
  CHECK(world.persistence.started == 1);
  world.persistence.state.running = true;
  CHECK(world.send({"BGREWRITEAOF"}) == "-ERR Background append only file rewriting already in progress");
  world.persistence.state.running = false;
  world.persistence.broken.detail = "no space left on /data";
  CHECK(world.send({"BGREWRITEAOF"}) == "-ERR no space left on /data");
}

TEST_CASE("LASTSAVE and TIME answer seconds since 1970", "[command]") {
  World world;
  world.persistence.state.last_success = world.now - std::chrono::seconds(100);
  CHECK(world.send({"LASTSAVE"}) == ":1699999900");
  CHECK(world.send({"TIME"}) == "*[$1700000000, $123456]");
}

TEST_CASE("SHUTDOWN stops with a save unless told otherwise, and closes without a reply", "[command]") {
  World world;
  CHECK(world.send({"SHUTDOWN"}).empty());
  CHECK(world.outcome.next == Next::close);
  CHECK(world.send({"SHUTDOWN", "NOSAVE", "NOW"}).empty());
  CHECK(world.send({"SHUTDOWN", "save", "FORCE"}).empty());
  CHECK(world.control.stops == std::vector{StopMode::save, StopMode::no_save, StopMode::save});
}

TEST_CASE("SHUTDOWN refuses contradictions and stops nothing then", "[command]") {
  World world;
  CHECK(world.send({"SHUTDOWN", "SAVE", "NOSAVE"}) == "-ERR syntax error");
  CHECK(world.send({"SHUTDOWN", "ABORT", "SAVE"}) == "-ERR syntax error");
  CHECK(world.send({"SHUTDOWN", "FOO"}) == "-ERR syntax error");
  CHECK(world.send({"SHUTDOWN", "ABORT"}) == "-ERR No shutdown in progress.");
  CHECK(world.control.stops.empty());
}

TEST_CASE("ROLE and MODULE LIST answer what clients ask for", "[command]") {
  World world;
  CHECK(world.send({"ROLE"}) == "*[$master, :0, *[]]");
  CHECK(world.send({"MODULE", "LIST"}) == "*[*[$name, $bf, $ver, :20802, $path, $, $args, *[]]]");
  CHECK(world.send({"MODULE", "HELP"}).starts_with("*[+MODULE <subcommand> "));
  CHECK(world.send({"CONFIG", "HELP"}).starts_with("*[+CONFIG <subcommand> "));
}

TEST_CASE("MODULE loads nothing", "[command]") {
  World world;
  const std::string error = "-ERR MODULE command not allowed. If the enable-module-command option is set to ";
  CHECK(world.send({"MODULE", "LOAD", "nosuch"}).starts_with(error));
  CHECK(world.send({"MODULE", "LOADEX", "nosuch"}).starts_with(error));
  CHECK(world.send({"MODULE", "UNLOAD", "bf"}).starts_with(error));
  CHECK(world.send({"MODULE", "LOAD"}) == "-ERR wrong number of arguments for 'module|load' command");
}

TEST_CASE("LOLWUT answers the version of Sepal", "[command]") {
  World world;
  world.control.about.version = "1.2.3";
  CHECK(world.send({"LOLWUT"}) == "$Sepal ver. 1.2.3\n");
  CHECK(world.send({"LOLWUT", "VERSION", "5"}) == "$Sepal ver. 1.2.3\n");
  CHECK(world.send({"LOLWUT", "VERSION", "x"}) == "-ERR value is not an integer or out of range");
  world.send({"HELLO", "3"});
  CHECK(world.send({"LOLWUT"}) == "=txt:Sepal ver. 1.2.3\n");
}

TEST_CASE("DEBUG answers the error of a server that does not allow it", "[command]") {
  World world;
  CHECK(
      world.send({"DEBUG", "SLEEP", "0"}) ==
      "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run "
      "it from a local connection, otherwise you need to set this option in the configuration file, and then "
      "restart the server.");
  CHECK(world.send({"DEBUG"}) == "-ERR wrong number of arguments for 'debug' command");
}

}  // namespace server_commands_test
