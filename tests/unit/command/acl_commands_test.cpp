// ACL, and what users mean for the other commands.
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace acl_commands_test {

using namespace sepal::command;
using sepal::command::testing::World;

namespace {

constexpr std::string_view ok = "+OK";
const std::string no_key = "-NOPERM No permissions to access a key";
const std::string wrong_password = "-WRONGPASS invalid username-password pair or user is disabled.";

// A world whose connection "b" is the user bob.
struct BobsWorld : World {
  explicit BobsWorld(const std::vector<std::string_view>& rules) {
    std::vector<std::string_view> words{"ACL", "SETUSER", "bob", "on", ">pw"};
    words.insert(words.end(), rules.begin(), rules.end());
    REQUIRE(send_words("a", words) == ok);
    REQUIRE(bob({"AUTH", "bob", "pw"}) == ok);
  }
  std::string bob(std::initializer_list<std::string_view> words) { return send_from("b", words); }
};

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("ACL LIST, USERS, GETUSER and WHOAMI describe users", "[command][acl]") {
  World world;
  CHECK(world.send({"ACL", "LIST"}) == "*[$user default on nopass sanitize-payload ~* &* +@all]");
  CHECK(world.send({"ACL", "USERS"}) == "*[$default]");
  CHECK(world.send({"ACL", "WHOAMI"}) == "$default");
  CHECK(world.send({"ACL", "GETUSER", "nosuch"}) == "$null");
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "~a", "(%R~b +ping)"}) == ok);
  CHECK(world.send({"ACL", "GETUSER", "bob"}) ==
        "*[$flags, *[$off, $sanitize-payload], $passwords, *[], $commands, $-@all, $keys, $~a, $channels, $, "
        "$selectors, *[*[$commands, $-@all +ping, $keys, $%R~b, $channels, $]]]");
  REQUIRE(world.send({"HELLO", "3"}).starts_with("%"));
  CHECK(world.send({"ACL", "GETUSER", "default"}) ==
        "%{$flags=~[$on, $nopass, $sanitize-payload], $passwords=*[], $commands=$+@all, $keys=$~*, "
        "$channels=$&*, $selectors=*[]}");
}

TEST_CASE("users count for maxmemory, and a user that does not fit is refused", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "first"}) == ok);
  const std::uint64_t before = world.keyspace.memory_used();
  const std::string rule = "~" + std::string(1'000, 'k');
  REQUIRE(world.send({"ACL", "SETUSER", "bob", rule}) == ok);
  const std::uint64_t bob_bytes = world.keyspace.memory_used() - before;
  CHECK(bob_bytes > 1'000);
  CHECK(bob_bytes < 3'000);
  const std::string refused = "-ERR the user would take more memory than maxmemory leaves";
  world.keyspace.set_memory_max(world.keyspace.memory_used() + bob_bytes - 1);
  CHECK(world.send({"ACL", "SETUSER", "tom", rule}) == refused);
  CHECK(world.send({"ACL", "GETUSER", "tom"}) == "$null");
  world.keyspace.set_memory_max(world.keyspace.memory_used() + bob_bytes);
  CHECK(world.send({"ACL", "SETUSER", "tom", rule}) == ok);
  CHECK(world.send({"ACL", "SETUSER", "bob", "~another"}) == refused);
  CHECK(world.send({"ACL", "SETUSER", "bob", "resetkeys"}) == ok);
  CHECK(world.send({"ACL", "DELUSER", "bob", "tom"}) == ":2");
  CHECK(world.keyspace.memory_used() == before);
}

TEST_CASE("ACL LIST and USERS answer no more than maxmemory_clients", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "~" + std::string(1'000, 'k')}) == ok);
  world.options.clients_memory_max = 1'000;
  CHECK(world.send({"ACL", "LIST"}) ==
        "-ERR the rules of all users are longer than maxmemory-clients; ask for one user at a time");
  CHECK(world.send({"ACL", "USERS"}) == "*[$bob, $default]");
  world.options.clients_memory_max = 10;
  CHECK(world.send({"ACL", "USERS"}).starts_with("-ERR the rules of all users are longer"));
  world.options.clients_memory_max = 0;
  CHECK(world.send({"ACL", "LIST"}).starts_with("*[$user bob off"));
}

TEST_CASE("ACL SETUSER and DELUSER refuse what is wrong", "[command][acl]") {
  World world;
  CHECK(world.send({"ACL", "SETUSER", "bob", "foo"}) ==
        "-ERR Error in ACL SETUSER modifier 'foo': Syntax error");
  CHECK(world.send({"ACL", "SETUSER", "b b"}) == "-ERR Usernames can't contain spaces or null characters");
  CHECK(world.send({"ACL", "DELUSER", "bob"}) == ":0");
  CHECK(world.send({"ACL", "DELUSER", "default"}) == "-ERR The 'default' user cannot be removed");
  CHECK(world.send({"ACL", "NOSUCH"}) == "-ERR unknown subcommand 'NOSUCH'. Try ACL HELP.");
}

TEST_CASE("a user's rules hold for its clients, and a change has effect at once", "[command][acl]") {
  BobsWorld world({"~app:*", "+@bloom"});
  CHECK(world.bob({"BF.ADD", "app:1", "i"}) == ":1");
  CHECK(world.bob({"BF.ADD", "other", "i"}) == no_key);
  CHECK(world.bob({"PING"}) == "-NOPERM User bob has no permissions to run the 'ping' command");
  CHECK(world.bob({"NOSUCH"}).starts_with("-ERR unknown command"));
  CHECK(world.bob({"BF.ADD", "other"}) == "-ERR wrong number of arguments for 'bf.add' command");
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "-bf.add"}) == ok);
  CHECK(world.bob({"BF.ADD", "app:1", "i"}) ==
        "-NOPERM User bob has no permissions to run the 'bf.add' command");
  CHECK(has(world.send({"CLIENT", "LIST"}), "cmd=bf.add user=bob "));
}

TEST_CASE("each request that runs together with others is checked", "[command][acl]") {
  BobsWorld world({"~app:*", "+@all"});
  auto& bob = world.connection("b");
  const std::vector<std::string_view> words{"BF.ADD", "other", "a"};
  const Request request{.client = bob.client,
                        .reply = bob.reply,
                        .spec = row_for(words),
                        .words = words,
                        .partial = bob.partial};
  const std::string_view items[] = {"a", "b"};
  CHECK(world.dispatcher.run_together(request, items, {.now = world.now, .steady_now = {}}).next ==
        Next::need_alone);
  const Request requests[] = {request, request};
  CHECK_FALSE(world.dispatcher.run_lone_requests(requests, {.now = world.now, .steady_now = {}}));
  CHECK(bob.reply.size() == 0);
}

TEST_CASE("a refused command lets its transaction fail", "[command][acl]") {
  BobsWorld world({"~app:*", "+@all"});
  CHECK(world.bob({"MULTI"}) == ok);
  CHECK(world.bob({"BF.ADD", "other", "i"}) == no_key);
  CHECK(world.bob({"EXEC"}) == "-EXECABORT Transaction discarded because of previous errors.");
}

TEST_CASE("EXEC asks again whether the user may run the commands", "[command][acl]") {
  BobsWorld world({"~*", "+@all"});
  CHECK(world.bob({"MULTI"}) == ok);
  CHECK(world.bob({"BF.ADD", "k", "a"}) == "+QUEUED");
  CHECK(world.bob({"BF.ADD", "k", "b"}) == "+QUEUED");
  CHECK(world.bob({"BF.CARD", "k"}) == "+QUEUED");
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "-bf.add"}) == ok);
  const std::string refused =
      "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This "
      "command is no longer allowed for the following reason: no permission to execute the command or "
      "subcommand";
  CHECK(world.bob({"EXEC"}) == "*[" + refused + ", " + refused + ", :0]");
  CHECK(has(world.send({"ACL", "LOG"}), "$context, $multi"));
}

TEST_CASE("a client logs in with the name of a user", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "bob", ">pw", "+@all"}) == ok);
  CHECK(world.send({"AUTH", "bob", "pw"}) == wrong_password);  // it is off
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "on"}) == ok);
  CHECK(world.send({"AUTH", "bob", "x"}) == wrong_password);
  CHECK(world.send({"HELLO", "2", "AUTH", "bob", "pw"}).starts_with("*[$server"));
  CHECK(world.send({"ACL", "WHOAMI"}) == "$bob");
  CHECK(world.send({"RESET"}) == "+RESET");
  CHECK(world.send({"ACL", "WHOAMI"}) == "$default");
}

TEST_CASE("CONFIG SET requirepass sets the password of `default`", "[command][acl]") {
  World world;
  REQUIRE(world.send({"CONFIG", "SET", "requirepass", "sesame"}) == ok);
  CHECK(world.send({"PING"}) == "+PONG");
  CHECK(world.send_from("b", {"PING"}) == "-NOAUTH Authentication required.");
  CHECK(world.send_from("b", {"AUTH", "default", "sesame"}) == ok);
  REQUIRE(world.send({"ACL", "SETUSER", "default", ">other"}) == ok);
  CHECK(world.send_from("b", {"AUTH", "other"}) == ok);
  REQUIRE(world.send({"CONFIG", "SET", "requirepass", "sesame"}) == ok);
  CHECK(world.send_from("b", {"AUTH", "other"}) == wrong_password);
  REQUIRE(world.send({"CONFIG", "SET", "requirepass", ""}) == ok);
  CHECK(world.send_from("c", {"PING"}) == "+PONG");
}

TEST_CASE("the clients of a removed user are closed; one that removes its own user is answered first",
          "[command][acl]") {
  BobsWorld world({"~*", "+@all"});
  CHECK(world.send({"ACL", "DELUSER", "bob", "nosuch"}) == ":1");
  CHECK(world.clients.killed == std::vector<std::uint64_t>{world.connection("b").client.id});
  CHECK(world.bob({"PING"}).starts_with("-NOPERM"));

  BobsWorld own({"~*", "+@all"});
  CHECK(own.bob({"ACL", "DELUSER", "bob"}) == ":1");
  CHECK(own.outcome.next == Next::close);
  CHECK(own.clients.killed.empty());
  CHECK(own.control.administration.back() == "bob: ACL DELUSER (redacted)");
}

TEST_CASE("CLIENT KILL USER closes the clients of a user", "[command][acl]") {
  BobsWorld world({"~*", "+@all"});
  CHECK(world.send({"CLIENT", "KILL", "USER", "nosuch"}) == "-ERR No such user 'nosuch'");
  CHECK(world.send({"CLIENT", "KILL", "USER", "bob"}) == ":1");
  CHECK(world.clients.killed == std::vector<std::uint64_t>{world.connection("b").client.id});
}

TEST_CASE("ACL CAT lists categories and their commands", "[command][acl]") {
  World world;
  CHECK(has(world.send({"ACL", "CAT"}), "$bloom"));
  CHECK(has(world.send({"ACL", "CAT", "BLOOM"}), "$bf.add"));
  CHECK(has(world.send({"ACL", "CAT", "admin"}), "$acl|setuser"));
  CHECK(world.send({"ACL", "CAT", "nosuch"}) == "-ERR Unknown category 'nosuch'");
  CHECK(world.send({"ACL", "CAT", "a", "b"}) ==
        "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.");
}

TEST_CASE("ACL GENPASS makes passwords of so many bits", "[command][acl]") {
  World world;
  const std::string first = world.send({"ACL", "GENPASS"});
  CHECK(first.size() == 1 + 64);
  CHECK(world.send({"ACL", "GENPASS"}) != first);
  CHECK(world.send({"ACL", "GENPASS", "5"}).size() == 1 + 2);
  CHECK(world.send({"ACL", "GENPASS", "4096"}).size() == 1 + 1024);
  CHECK(world.send({"ACL", "GENPASS", "4097"}).starts_with("-ERR ACL GENPASS argument must be"));
  CHECK(world.send({"ACL", "GENPASS", "x"}) == "-ERR value is not an integer or out of range");
}

TEST_CASE("ACL DRYRUN tells what a user may do", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "~app:*", "+bf.exists"}) == ok);
  CHECK(world.send({"ACL", "DRYRUN", "bob", "BF.EXISTS", "app:1", "i"}) == ok);
  CHECK(world.send({"ACL", "DRYRUN", "bob", "BF.EXISTS", "x", "i"}) ==
        "$User bob has no permissions to access the 'x' key");
  CHECK(world.send({"ACL", "DRYRUN", "bob", "PING"}) ==
        "$User bob has no permissions to run the 'ping' command");
  CHECK(world.send({"ACL", "DRYRUN", "bob", "NOSUCH"}) == "-ERR Command 'NOSUCH' not found");
  CHECK(world.send({"ACL", "DRYRUN", "bob", "CONFIG", "NOSUCH"}) == "-ERR Command 'CONFIG' not found");
  CHECK(world.send({"ACL", "DRYRUN", "bob", "BF.EXISTS"}) ==
        "-ERR wrong number of arguments for 'bf.exists' command");
  CHECK(world.send({"ACL", "DRYRUN", "eve", "PING"}) == "-ERR User 'eve' not found");
}

TEST_CASE("ACL LOG shows denials and failed logins, and INFO counts them", "[command][acl]") {
  BobsWorld world({"~app:*", "+bf.exists"});
  world.bob({"PING"});
  world.bob({"PING"});
  world.bob({"BF.EXISTS", "other", "i"});
  world.bob({"AUTH", "eve", "sesame"});
  world.now += std::chrono::milliseconds(1500);
  const std::string log = world.send({"ACL", "LOG"});
  CHECK(
      log.starts_with("*[*[$count, :1, $reason, $auth, $context, $toplevel, $object, $AUTH, $username, $eve, "
                      "$age-seconds, $1.5, $client-info, $id=2 addr=127.0.0.1:50002"));
  CHECK(has(log, "$count, :1, $reason, $key, $context, $toplevel, $object, $other, $username, $bob"));
  CHECK(has(log, "$count, :2, $reason, $command, $context, $toplevel, $object, $ping, $username, $bob"));
  CHECK(has(log,
            "$entry-id, :2, $timestamp-created, :1700000000123, $timestamp-last-updated, :1700000000123]"));
  CHECK_FALSE(has(log, "sesame"));
  CHECK(world.send({"ACL", "LOG", "0"}) == "*[]");
  CHECK(world.send({"ACL", "LOG", "-1"}) == "*[]");
  CHECK(world.send({"ACL", "LOG", "x"}) == "-ERR value is not an integer or out of range");
  CHECK(world.send({"ACL", "LOG", "1", "2"}) ==
        "-ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.");
  const std::string info = world.send({"INFO", "stats"});
  CHECK(has(info,
            "acl_access_denied_auth:1\r\nacl_access_denied_cmd:2\r\nacl_access_denied_key:1\r\n"
            "acl_access_denied_channel:0\r\nacl_access_denied_tls_cert:0\r\n"));
  REQUIRE(world.send({"CONFIG", "SET", "acllog-max-len", "1"}) == ok);
  CHECK_FALSE(has(world.send({"ACL", "LOG"}), "$bob"));
  CHECK(world.send({"ACL", "LOG", "RESET"}) == ok);
  CHECK(world.send({"ACL", "LOG"}) == "*[]");
  REQUIRE(world.send({"CONFIG", "RESETSTAT"}) == ok);
  CHECK(has(world.send({"INFO", "stats"}), "acl_access_denied_cmd:0\r\n"));
}

TEST_CASE("ACL SAVE and LOAD wait for a background job, if there is an ACL file", "[command][acl]") {
  World world;
  const std::string none =
      "-ERR This Redis instance is not configured to use an ACL file. Name one with the setting aclfile, and "
      "start sepald again.";
  CHECK(world.send({"ACL", "SAVE"}) == none);
  CHECK(world.send({"ACL", "LOAD"}) == none);
  world.control.has_acl_file = true;
  CHECK(world.send({"ACL", "SAVE"}).empty());
  CHECK(world.outcome.next == Next::wait);
  CHECK(world.control.saved_users == "user default on nopass sanitize-payload ~* &* +@all\n");
  CHECK(world.send({"ACL", "LOAD"}).empty());
  CHECK(world.control.loading_for == std::vector<std::uint64_t>{1});
  CHECK(world.send({"ACL", "HELP"}).starts_with("*[+ACL <subcommand>"));
}

}  // namespace acl_commands_test
