// ACL, and what users mean for the other commands.

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace acl_commands_test {

using namespace sepal::command;
using sepal::command::testing::World;

namespace {

constexpr std::string_view ok = "+OK";

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

}  // namespace

TEST_CASE("users count for maxmemory, and a user that does not fit is refused") {
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

TEST_CASE("each request that runs together with others is checked") {
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

TEST_CASE("ACL GENPASS makes passwords of so many bits") {
  World world;
  const std::string first = world.send({"ACL", "GENPASS"});
  CHECK(first.size() == 1 + 64);
  CHECK(world.send({"ACL", "GENPASS"}) != first);
  CHECK(world.send({"ACL", "GENPASS", "5"}).size() == 1 + 2);
  CHECK(world.send({"ACL", "GENPASS", "4096"}).size() == 1 + 1024);
  CHECK(world.send({"ACL", "GENPASS", "4097"}).starts_with("-ERR ACL GENPASS argument must be"));
  CHECK(world.send({"ACL", "GENPASS", "x"}) == "-ERR value is not an integer or out of range");
}

}  // namespace acl_commands_test
