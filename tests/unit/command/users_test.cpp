// The table of users, ACL files, and the log of denials.
#include <sepal/command/run/client_state.hpp>
#include <sepal/command/run/client_users.hpp>
#include <sepal/command/users/acl_log.hpp>
#include <sepal/command/users/users.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace users_test {

using namespace sepal::command;
using sepal::Errc;
using sepal::WallTime;
using sepal::command::testing::FakeClients;

namespace {

using Words = std::vector<std::string_view>;

std::string set(Users& users, std::string_view name, const Words& rules) {
  return users.set(name, rules);
}

std::string refused(std::string_view text) {
  const auto parsed = parse_users(text, "users.acl");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == Errc::invalid_setting);
  return parsed.error().detail;
}

const std::string open_default = "user default on nopass sanitize-payload ~* &* +@all\n";

}  // namespace

TEST_CASE("`default` is as requirepass says") {
  Users open("");
  CHECK(open.open());
  CHECK(open.text() == open_default);
  Users closed("sesame");
  CHECK_FALSE(closed.open());
  CHECK(closed.log_in("default", "sesame") == &closed.standard());
  CHECK(closed.log_in("default", "x") == nullptr);
  CHECK(closed.log_in("nosuch", "sesame") == nullptr);
  closed.set_default_password("");
  CHECK(closed.open());
  REQUIRE(set(closed, "default", {"off"}).empty());
  CHECK_FALSE(closed.open());
  CHECK(closed.log_in("default", "") == nullptr);
}

TEST_CASE("a user keeps its place when it changes") {
  Users users("");
  REQUIRE(set(users, "bob", {"on", ">pw"}).empty());
  const User* const bob = users.find("bob");
  REQUIRE(set(users, "bob", {"+@all", "~*"}).empty());
  CHECK(users.find("bob") == bob);
  CHECK(bob->unrestricted());
  auto table = parse_users("user bob on -@all", "f");
  REQUIRE(table);
  CHECK(users.adopt(std::move(*table), "").empty());
  CHECK(users.find("bob") == bob);
  CHECK_FALSE(bob->unrestricted());
}

TEST_CASE("names of users are checked") {
  Users users("");
  const std::string spaces = "Usernames can't contain spaces or null characters";
  CHECK(set(users, "a b", {}) == spaces);
  CHECK(set(users, std::string_view("a\0b", 3), {}) == spaces);
  CHECK(set(users, "a\n", {}) == spaces);
  CHECK_FALSE(set(users, "", {}).empty());
  CHECK(set(users, std::string(user_name_bytes_max, 'x'), {}).empty());
  CHECK_FALSE(set(users, std::string(user_name_bytes_max + 1, 'x'), {}).empty());
  CHECK(set(users, "\xff\x01\"'", {}).empty());
}

TEST_CASE("a user that is refused is not made") {
  Users users("");
  CHECK_FALSE(set(users, "bob", {"on", "nonsense"}).empty());
  CHECK(users.find("bob") == nullptr);
}

TEST_CASE("the text of all users reads back") {
  Users users("sesame");
  REQUIRE(set(users, "bob", {"on", ">pw", "~a*", "+@read", "(~b +ping)"}).empty());
  REQUIRE(set(users, "\xff\"x'", {"~\"q", "&\\"}).empty());
  const std::string text = users.text();
  auto table = parse_users(text, "f");
  REQUIRE(table);
  Users again("");
  CHECK(again.adopt(std::move(*table), "").empty());
  CHECK(again.text() == text);
}

TEST_CASE("an ACL file may have comments, blank lines and any line ends") {
  const auto table = parse_users("# comment\r\n\r\n  user\tbob  on\r\nuser eve off", "f");
  REQUIRE(table);
  CHECK(table->size() == 2);
  CHECK(table->at("bob")->is_on());
  CHECK(parse_users("", "f")->empty());
}

TEST_CASE("an error in an ACL file names the line") {
  CHECK(refused("\nuser\n") == "users.acl:2: a line begins with the word user, and the name of a user");
  CHECK(refused("alice on").starts_with("users.acl:1: "));
  CHECK(refused("user a on\nuser b nonsense\n") ==
        "users.acl:2: Error in ACL SETUSER modifier 'nonsense': Syntax error");
  CHECK(refused("user a on\nuser a off\n") ==
        "users.acl:2: Duplicate user found. A user can only be defined once in config files");
  CHECK(refused("user a #sesame").find("sesame") == std::string::npos);
  CHECK(refused("user a (~x +ping").find("Unmatched parenthesis") != std::string::npos);
}

TEST_CASE("an ACL file without `default` keeps the password of requirepass") {
  Users users("sesame");
  CHECK(users.adopt(*parse_users("user bob on", "f"), "sesame").empty());
  CHECK_FALSE(users.open());
  CHECK(users.log_in("default", "sesame") != nullptr);
  CHECK(users.adopt(*parse_users("user default on nopass", "f"), "sesame").size() == 1);
  CHECK(users.open());
}

TEST_CASE("clients of a removed user may do nothing more, and are closed") {
  Users users("");
  REQUIRE(set(users, "bob", {"on", "~*", "+@all"}).empty());
  FakeClients clients;
  ClientState bobs, others;
  bobs.id = 1;
  bobs.user = users.find("bob");
  others.id = 2;
  welcome(users, others);
  clients.clients = {{1, &bobs}, {2, &others}};
  const std::string_view names[] = {"bob", "default", "nosuch"};
  const RemovedUsers removed = users.remove(names);
  CHECK(removed.size() == 1);
  CHECK_FALSE(dismiss(removed, clients, &others));
  CHECK(clients.killed == std::vector<std::uint64_t>{1});
  CHECK(bobs.user == &User::without_rights());
  CHECK(others.user == &users.standard());
}

TEST_CASE("many users are made and removed") {
  Users users("");
  constexpr int count = 20'000;
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    names.push_back("user-" + std::to_string(i));
    REQUIRE(set(users, names.back(), {"on", "~app:*", "+@bloom"}).empty());
  }
  auto table = parse_users(users.text(), "f");
  REQUIRE(table);
  CHECK(table->size() == count + 1);
  const std::vector<std::string_view> views(names.begin(), names.end());
  CHECK(users.remove(views).size() == count);
  CHECK(users.text() == open_default);
}

TEST_CASE("the log groups the same event, keeps a limit, and cuts long texts") {
  AclLog log;
  const WallTime start{};
  const auto event = [](std::string object) {
    return AclLog::Event{.object = std::move(object), .user_name = "bob", .client = "id=1"};
  };
  log.note(event("get"), start, 3);
  log.note(event("set"), start, 3);
  log.note(event("get"), start + AclLog::group_time_max, 3);
  auto entries = log.newest(10);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].event.object == "get");
  CHECK(entries[0].count == 2);
  CHECK(entries[0].id == 0);
  CHECK(entries[0].created == start);
  CHECK(entries[0].updated == start + AclLog::group_time_max);
  log.note(event("get"), start + 2 * AclLog::group_time_max + std::chrono::milliseconds(1), 3);
  CHECK(log.newest(10).size() == 3);
  log.note(event(std::string(1000, 'k')), start, 3);
  entries = log.newest(10);
  CHECK(entries.size() == 3);
  CHECK(entries[0].event.object == std::string(128, 'k'));
  CHECK(log.newest(1).size() == 1);
  CHECK(log.count_of(AclReason::command) == 5);
  log.note(event("x"), start, 0);
  CHECK(log.newest(10).empty());
  const auto large = [&](std::string object) {
    AclLog::Event made = event(std::move(object));
    made.client.assign(acl_log_bytes_max / 2 - 1'000, 'x');
    return made;
  };
  log.note(large("a"), start, 10);
  log.note(large("b"), start, 10);
  CHECK(log.newest(10).size() == 2);
  log.note(large("a"), start, 10);  // the same event again takes no more
  CHECK(log.newest(10).size() == 2);
  log.note(large("c"), start, 10);
  CHECK(log.newest(10).size() == 2);
  log.clear();
  log.reset_counts();
  CHECK(log.count_of(AclReason::command) == 0);
}

}  // namespace users_test
