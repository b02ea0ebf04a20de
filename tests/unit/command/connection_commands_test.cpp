#include "support/catch.hpp"
#include "world.hpp"

namespace connection_commands_test {

using sepal::command::Next;
using sepal::command::testing::World;

namespace {

const std::string server_in_resp2 =
    "*[$server, $redis, $version, $7.4.1, $proto, :2, $id, :1, $mode, $standalone, $role, $master, $modules, "
    "*[*[$name, $bf, $ver, :20802, $path, $, $args, *[]]]]";
const std::string server_in_resp3 =
    "%{$server=$redis, $version=$7.4.1, $proto=:3, $id=:1, $mode=$standalone, $role=$master, $modules="
    "*[%{$name=$bf, $ver=:20802, $path=$, $args=*[]}]}";

}  // namespace

TEST_CASE("PING and ECHO answer their argument", "[command]") {
  World world;
  CHECK(world.send({"PING"}) == "+PONG");
  CHECK(world.send({"PING", ""}) == "$");
  CHECK(world.send({"ECHO", std::string_view("\0\r\n", 3)}) == std::string("$\0\r\n", 4));
  CHECK(world.send({"PING", "a", "b"}) == "-ERR wrong number of arguments for 'ping' command");
}

TEST_CASE("HELLO switches the protocol of reply and client together", "[command]") {
  World world;
  CHECK(world.send({"HELLO"}) == server_in_resp2);
  CHECK(world.send({"HELLO", "3"}) == server_in_resp3);
  CHECK(world.connection("a").client.protocol == 3);
  CHECK(world.send({"HELLO"}) == server_in_resp3);
  CHECK(world.send({"HELLO", "2"}) == server_in_resp2);
  CHECK(world.connection("a").client.protocol == 2);
}

TEST_CASE("HELLO refuses unknown words, and then changes nothing", "[command]") {
  World world;
  for (const char* version : {"1", "4", "0", "-3"})
    CHECK(world.send({"HELLO", version}) == "-NOPROTO unsupported protocol version");
  for (const char* version : {"abc", "3.0", "", "SETNAME"})
    CHECK(world.send({"HELLO", version}) == "-ERR Protocol version is not an integer or out of range");
  CHECK(world.send({"HELLO", "3", "SETNAME"}) == "-ERR Syntax error in HELLO option 'SETNAME'");
  CHECK(world.send({"HELLO", "3", "AUTH", "default"}) == "-ERR Syntax error in HELLO option 'AUTH'");
  CHECK(world.send({"HELLO", "3", "SETNAME", "a b"}) ==
        "-ERR Client names cannot contain spaces, newlines or special characters.");
  CHECK(world.send({"HELLO", "3", "SETNAME", "x", "AUTH", "nobody", "y"}) ==
        "-WRONGPASS invalid username-password pair or user is disabled.");
  CHECK(world.send({"CLIENT", "GETNAME"}) == "$null");
  CHECK(world.connection("a").client.protocol == 2);
}

TEST_CASE("HELLO authenticates and names a connection in one request", "[command]") {
  World world;
  world.services.users->set_default_password("sesame");
  CHECK(world.send({"HELLO", "3"}).starts_with("-NOAUTH HELLO must be called with the client already auth"));
  CHECK(world.send({"HELLO", "3", "AUTH", "default", "wrong"}).starts_with("-WRONGPASS "));
  CHECK(world.send({"HELLO", "3", "AUTH", "default", "sesame", "SETNAME", "me"}) == server_in_resp3);
  CHECK(world.send({"CLIENT", "GETNAME"}) == "$me");
}

TEST_CASE("AUTH accepts the password of the default user, and no other user", "[command]") {
  World world;
  CHECK(world.send({"AUTH", "x"}).starts_with("-ERR AUTH <password> called without any password configured"));
  CHECK(world.send({"AUTH", "default", "anything"}) == "+OK");
  CHECK(world.send({"AUTH", "nobody", "x"}).starts_with("-WRONGPASS "));
  CHECK(world.send({"AUTH", "a", "b", "c"}) == "-ERR syntax error");
  world.services.users->set_default_password("sesame");
  for (const char* wrong : {"", "sesam", "sesame ", "sesamE", "sesamesesame"})
    CHECK(world.send_from("b", {"AUTH", wrong}).starts_with("-WRONGPASS "));
  CHECK(world.send_from("b", {"AUTH", "default", "sesame"}) == "+OK");
  CHECK(world.send_from("b", {"AUTH", "wrong"}).starts_with("-WRONGPASS "));
  CHECK(world.send_from("b", {"PING"}) == "+PONG");
}

TEST_CASE("RESET puts a connection into the state of a new one", "[command]") {
  World world;
  world.send({"HELLO", "3", "SETNAME", "me"});
  world.send({"SELECT", "5"});
  world.send({"CLIENT", "NO-EVICT", "ON"});
  CHECK(world.send({"RESET"}) == "+RESET");
  const auto& client = world.connection("a").client;
  CHECK(client.database == 0);
  CHECK(client.name.empty());
  CHECK_FALSE(client.no_evict);
  CHECK(client.protocol == 2);
  CHECK(world.send({"CLIENT", "GETNAME"}) == "$null");
  CHECK(client.authenticated);
  world.services.users->set_default_password("sesame");
  world.send({"RESET"});
  CHECK(world.send({"PING"}) == "-NOAUTH Authentication required.");
}

TEST_CASE("SELECT accepts the numbers of databases, and says what is wrong with other words", "[command]") {
  World world;
  CHECK(world.send({"SELECT", "15"}) == "+OK");
  CHECK(world.send({"SELECT", "16"}) == "-ERR DB index is out of range");
  CHECK(world.send({"SELECT", "-1"}) == "-ERR DB index is out of range");
  CHECK(world.send({"SELECT", "999999999999"}) ==
        "-ERR value is out of range, value must between -2147483648 and 2147483647");
  CHECK(world.send({"SELECT", "x"}) == "-ERR value is not an integer or out of range");
  CHECK(world.connection("a").client.database == 15);
}

TEST_CASE("QUIT answers and closes", "[command]") {
  World world;
  CHECK(world.send({"quit", "now"}) == "+OK");
  CHECK(world.outcome.next == Next::close);
}

TEST_CASE("READONLY and READWRITE are refused like in the reference", "[command]") {
  World world;
  CHECK(world.send({"READONLY"}) == "-ERR This instance has cluster support disabled");
  CHECK(world.send({"READWRITE"}) == "-ERR This instance has cluster support disabled");
}

}  // namespace connection_commands_test
