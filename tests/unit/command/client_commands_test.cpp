#include <regex>

#include "support/catch.hpp"
#include "world.hpp"

namespace client_commands_test {

using sepal::command::Next;
using sepal::command::testing::World;

TEST_CASE("a connection's name is printable, and empty means none", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "SETNAME", "abc"}) == "+OK");
  CHECK(world.send({"CLIENT", "GETNAME"}) == "$abc");
  CHECK(world.send({"CLIENT", "SETNAME", ""}) == "+OK");
  CHECK(world.send({"CLIENT", "GETNAME"}) == "$null");
  for (const std::string_view name : {"a b", "a\nb", "caf\xc3\xa9", "\x7f"})
    CHECK(world.send({"CLIENT", "SETNAME", name}) ==
          "-ERR Client names cannot contain spaces, newlines or special characters.");
  CHECK(world.send({"CLIENT", "SETNAME", std::string_view("\0", 1)}) == "+OK");
  // The reference stops its check at a NUL, and so accepts a line end after it.
  CHECK(world.send({"CLIENT", "SETNAME", std::string_view("\0\n", 2)}).starts_with("-ERR Client names"));
}

TEST_CASE("a name may have 1024 bytes and not one more", "[command]") {
  World world;
  const std::string longest(1024, 'x');
  CHECK(world.send({"CLIENT", "SETNAME", longest}) == "+OK");
  CHECK(world.send({"CLIENT", "SETNAME", longest + "x"}).starts_with("-ERR Client names"));
  CHECK(world.send({"CLIENT", "GETNAME"}) == "$" + longest);
}

TEST_CASE("CLIENT SETINFO keeps the library's name and version", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "SETINFO", "lib-name", "mylib"}) == "+OK");
  CHECK(world.send({"CLIENT", "SETINFO", "LIB-VER", "1.2"}) == "+OK");
  CHECK(world.send({"CLIENT", "SETINFO", "LIB-NAME", "a b"}) ==
        "-ERR LIB-NAME cannot contain spaces, newlines or special characters.");
  CHECK(world.send({"CLIENT", "SETINFO", "LIB-X", "a"}) == "-ERR Unrecognized option 'LIB-X'");
  CHECK(world.send({"CLIENT", "INFO"}).find("lib-name=mylib lib-ver=1.2") != std::string::npos);
}

TEST_CASE("CLIENT INFO is one line of fields", "[command]") {
  World world;
  world.connection("a");
  world.steady_now += std::chrono::seconds(5);
  world.send({"SELECT", "4"});
  world.steady_now += std::chrono::seconds(2);
  const std::string line = world.send({"CLIENT", "INFO"});
  CHECK(std::regex_match(line, std::regex("\\$id=[0-9]+(?: [a-z-]+=[^ ]*)+\n")));
  CHECK(line.find("id=1 addr=127.0.0.1:50001 laddr=127.0.0.1:6379 fd=9 name= age=7 idle=2 flags=N db=4 ") !=
        std::string::npos);
  CHECK(line.find(" cmd=client|info user=default redir=-1 resp=2 ") != std::string::npos);
  world.send({"CLIENT", "NO-TOUCH", "on"});
  CHECK(world.send({"CLIENT", "INFO"}).find(" flags=T ") != std::string::npos);
  world.send({"HELLO", "3"});
  CHECK(world.send({"CLIENT", "INFO"}).starts_with("=txt:id=1 "));
}

TEST_CASE("CLIENT LIST shows all connections, or those of a type, or those with given numbers", "[command]") {
  World world;
  world.connection("a");
  world.connection("b");
  const auto lines = [&](std::initializer_list<std::string_view> words) {
    const std::string reply = world.send(words);
    return std::count(reply.begin(), reply.end(), '\n');
  };
  CHECK(lines({"CLIENT", "LIST"}) == 2);
  CHECK(lines({"CLIENT", "LIST", "TYPE", "normal"}) == 2);
  CHECK(lines({"CLIENT", "LIST", "TYPE", "pubsub"}) == 0);
  CHECK(lines({"CLIENT", "LIST", "ID", "2", "99", "-1"}) == 1);
  CHECK(world.send({"CLIENT", "LIST", "TYPE", "foo"}) == "-ERR Unknown client type 'foo'");
  CHECK(world.send({"CLIENT", "LIST", "ID", "x"}) == "-ERR Invalid client ID");
  CHECK(world.send({"CLIENT", "LIST", "ID"}) == "-ERR syntax error");
  CHECK(world.send({"CLIENT", "LIST", "FOO"}) == "-ERR syntax error");
}

TEST_CASE("CLIENT KILL by address answers OK, also to a client that kills itself", "[command]") {
  World world;
  world.connection("a");
  world.connection("b");
  CHECK(world.send({"CLIENT", "KILL", "1.2.3.4:5"}) == "-ERR No such client");
  CHECK(world.send({"CLIENT", "KILL", "ID"}) == "-ERR No such client");
  CHECK(world.send({"CLIENT", "KILL", "127.0.0.1:50002"}) == "+OK");
  CHECK(world.clients.killed == std::vector<std::uint64_t>{2});
  CHECK(world.outcome.next == Next::done);
  CHECK(world.send({"CLIENT", "KILL", "127.0.0.1:50001"}) == "+OK");
  CHECK(world.outcome.next == Next::close);
  CHECK(world.clients.killed.size() == 1);
}

TEST_CASE("CLIENT KILL by filters answers a count and spares the caller unless SKIPME is no", "[command]") {
  World world;
  for (const char* name : {"a", "b", "c"}) world.connection(name);
  CHECK(world.send({"CLIENT", "KILL", "TYPE", "normal"}) == ":2");
  CHECK(world.send({"CLIENT", "KILL", "ID", "1"}) == ":0");
  CHECK(world.send({"CLIENT", "KILL", "ID", "3", "TYPE", "replica"}) == ":0");
  CHECK(world.send({"CLIENT", "KILL", "LADDR", "127.0.0.1:6379", "ID", "3"}) == ":1");
  CHECK(world.send({"CLIENT", "KILL", "USER", "default", "SKIPME", "no"}) == ":3");
  CHECK(world.outcome.next == Next::close);
  world.steady_now += std::chrono::seconds(10);
  world.connection("d");
  CHECK(world.send({"CLIENT", "KILL", "MAXAGE", "10", "SKIPME", "no"}) == ":3");
  CHECK(world.send({"CLIENT", "KILL", "MAXAGE", "11", "SKIPME", "no"}) == ":0");
  CHECK(world.send({"CLIENT", "KILL", "MAXAGE", "9223372036854775807", "SKIPME", "no"}) == ":0");
}

TEST_CASE("CLIENT KILL says what is wrong with a filter", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "KILL", "TYPE", "foo"}) == "-ERR Unknown client type 'foo'");
  CHECK(world.send({"CLIENT", "KILL", "USER", "nobody"}) == "-ERR No such user 'nobody'");
  CHECK(world.send({"CLIENT", "KILL", "ID", "0"}) == "-ERR client-id should be greater than 0");
  CHECK(world.send({"CLIENT", "KILL", "ID", "x"}) == "-ERR client-id should be greater than 0");
  CHECK(world.send({"CLIENT", "KILL", "MAXAGE", "x"}) == "-ERR maxage is not an integer or out of range");
  CHECK(world.send({"CLIENT", "KILL", "SKIPME", "maybe"}) == "-ERR syntax error");
  CHECK(world.send({"CLIENT", "KILL", "ID", "1", "ADDR"}) == "-ERR syntax error");
}

TEST_CASE("the switches of a client are on or off", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "NO-EVICT", "on"}) == "+OK");
  CHECK(world.connection("a").client.no_evict);
  CHECK(world.send({"CLIENT", "NO-EVICT", "OFF"}) == "+OK");
  CHECK_FALSE(world.connection("a").client.no_evict);
  CHECK(world.send({"CLIENT", "NO-TOUCH", "maybe"}) == "-ERR syntax error");
}

TEST_CASE("no connection tracks keys", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "GETREDIR"}) == ":-1");
  CHECK(world.send({"CLIENT", "TRACKINGINFO"}) == "*[$flags, *[$off], $redirect, :-1, $prefixes, *[]]");
  CHECK(world.send({"CLIENT", "TRACKING", "off"}) == "+OK");
  CHECK(world.send({"CLIENT", "TRACKING", "ON"}) ==
        "-ERR Sepal does not track keys for clients: see docs/protocol.md");
  CHECK(world.send({"CLIENT", "TRACKING", "ON", "bcast", "PREFIX", "a", "NOLOOP", "REDIRECT", "1"})
            .starts_with("-ERR Sepal does not track keys"));
  CHECK(world.send({"CLIENT", "TRACKING", "MAYBE"}) == "-ERR syntax error");
  CHECK(world.send({"CLIENT", "TRACKING", "OFF", "FOO"}) == "-ERR syntax error");
  CHECK(world.send({"CLIENT", "TRACKING", "ON", "REDIRECT"}) == "-ERR syntax error");
  CHECK(world.send({"CLIENT", "TRACKING", "ON", "REDIRECT", "x"}) ==
        "-ERR value is not an integer or out of range");
  CHECK(world.send({"CLIENT", "TRACKING", "ON", "PREFIX", "a"}) ==
        "-ERR PREFIX option requires BCAST mode to be enabled");
  CHECK(world.send({"CLIENT", "CACHING", "YES"}).starts_with("-ERR CLIENT CACHING can be called only when "));
  world.send({"HELLO", "3"});
  CHECK(world.send({"CLIENT", "TRACKINGINFO"}) == "%{$flags=~[$off], $redirect=:-1, $prefixes=*[]}");
}

TEST_CASE("CLIENT UNBLOCK finds no client that waits for a key", "[command]") {
  World world;
  CHECK(world.send({"CLIENT", "UNBLOCK", "1"}) == ":0");
  CHECK(world.send({"CLIENT", "UNBLOCK", "1", "timeout"}) == ":0");
  CHECK(world.send({"CLIENT", "UNBLOCK", "1", "ERROR"}) == ":0");
  CHECK(world.send({"CLIENT", "UNBLOCK", "x", "FOO"}) ==
        "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  CHECK(world.send({"CLIENT", "UNBLOCK", "x"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"CLIENT", "Unblock", "1", "ERROR", "x"}) ==
        "-ERR unknown subcommand or wrong number of arguments for 'Unblock'. Try CLIENT HELP.");
}

}  // namespace client_commands_test
