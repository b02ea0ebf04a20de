#include <sepal/command/users/login_delay.hpp>

#include <chrono>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace sepal::command::login_delay_test {
namespace {

using testing::World;

const std::string wrong_password = "-WRONGPASS invalid username-password pair or user is disabled.";

// As many failed logins, by clients of their own, as are answered at once.
void fail_logins(World& world, int count) {
  for (int i = 0; i < count; ++i)
    REQUIRE(world.send_from("guess" + std::to_string(i), {"AUTH", "bob", "x"}) == wrong_password);
}

}  // namespace

TEST_CASE("failed logins are answered at a rate, and at once while they are few", "[command][acl]") {
  LoginDelay delay;
  const SteadyTime start{std::chrono::hours(1)};
  for (int i = 0; i < failed_logins_at_once; ++i) CHECK(delay.note(start) == start);
  for (int i = 1; i <= 50; ++i) CHECK(delay.note(start) == start + i * failed_login_interval);
  // Later ones wait for those before.
  CHECK(delay.note(start + 10 * failed_login_interval) == start + 51 * failed_login_interval);
  // After a quiet time, a few are answered at once again.
  const SteadyTime later = start + std::chrono::hours(1);
  for (int i = 0; i < failed_logins_at_once; ++i) CHECK(delay.note(later) == later);
  CHECK(delay.note(later) == later + failed_login_interval);
}

TEST_CASE("no failed login waits longer than the most", "[command][acl]") {
  LoginDelay delay;
  const SteadyTime start{std::chrono::hours(1)};
  SteadyTime due;
  for (int i = 0; i < 100'000; ++i) due = delay.note(start);
  CHECK(due <= start + failed_login_wait_max + failed_login_interval);
  CHECK(due >= start + failed_login_wait_max - failed_login_interval);
}

TEST_CASE("a failed login waits, is noted once, and holds up no right one", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "on", ">pw"}) == "+OK");
  fail_logins(world, failed_logins_at_once);
  CHECK(world.send_from("c", {"AUTH", "bob", "x"}).empty());
  CHECK(world.outcome.next == Next::delayed);
  CHECK(world.send_from("c", {"HELLO", "3", "AUTH", "bob", "x"}).empty());
  CHECK(world.outcome.next == Next::delayed);
  CHECK(world.send_from("d", {"AUTH", "bob", "pw"}) == "+OK");
  CHECK(world.control.failed_logins.size() == failed_logins_at_once + 1);
  world.steady_now += failed_login_interval;
  CHECK(world.send_from("c", {"AUTH", "bob", "x"}) == wrong_password);
  CHECK(world.control.failed_logins.size() == failed_logins_at_once + 1);
}

TEST_CASE("a login whose user has changed before its answer was due is let in", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "on", ">pw"}) == "+OK");
  fail_logins(world, failed_logins_at_once);
  CHECK(world.send_from("c", {"AUTH", "bob", "x"}).empty());
  REQUIRE(world.send({"ACL", "SETUSER", "bob", ">x"}) == "+OK");
  world.steady_now += failed_login_interval;
  CHECK(world.send_from("c", {"AUTH", "bob", "x"}) == "+OK");
}

TEST_CASE("a transaction cannot be used to guess faster", "[command][acl]") {
  World world;
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "on", ">pw"}) == "+OK");
  fail_logins(world, failed_logins_at_once);
  REQUIRE(world.send({"MULTI"}) == "+OK");
  REQUIRE(world.send({"AUTH", "bob", "x"}) == "+QUEUED");
  REQUIRE(world.send({"AUTH", "bob", "pw"}) == "+QUEUED");
  CHECK(world.send({"EXEC"}) == "*[" + wrong_password +
                                    ", -ERR too many logins have failed; this one was not checked, try again "
                                    "outside of a transaction]");
  CHECK(world.send({"AUTH", "bob", "pw"}).empty());
  CHECK(world.outcome.next == Next::delayed);
  world.steady_now += failed_login_interval;
  CHECK(world.send({"AUTH", "bob", "pw"}) == "+OK");
}

TEST_CASE("commands that administer the server are logged without secrets, and only if they succeed",
          "[command][acl]") {
  World world;
  REQUIRE(world.send({"CONFIG", "SET", "requirepass", "sesame"}) == "+OK");
  REQUIRE(world.send({"ACL", "SETUSER", "bob", "on", ">pw"}) == "+OK");
  REQUIRE(world.send({"CONFIG", "SET", "maxclients", "x"}).starts_with("-ERR"));
  REQUIRE(world.send({"FLUSHALL"}) == "+OK");
  REQUIRE(world.send({"CONFIG", "GET", "port"}).starts_with("*"));
  CHECK(world.control.administration ==
        std::vector<std::string>{"default: CONFIG SET requirepass (redacted)",
                                 "default: ACL SETUSER (redacted) (redacted) (redacted)",
                                 "default: FLUSHALL"});
}

}  // namespace sepal::command::login_delay_test
