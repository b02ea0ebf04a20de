#include <sepal/command/table/command_table.hpp>
#include <sepal/value/kind_row.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace key_commands_test {

using sepal::command::testing::World;

TEST_CASE("RANDOMKEY answers every key at some time, or null if there is none") {
  World world;
  CHECK(world.send({"RANDOMKEY"}) == "$null");
  std::set<std::string> keys;
  for (int i = 0; i < 4; ++i) world.send({"BF.ADD", std::to_string(i), "a"});
  for (int i = 0; i < 200; ++i) keys.insert(world.send({"RANDOMKEY"}));
  CHECK(keys == std::set<std::string>{"$0", "$1", "$2", "$3"});
}

TEST_CASE("SCAN visits all keys once, for any step") {
  World world;
  for (int i = 0; i < 100; ++i) world.send({"BF.ADD", "s" + std::to_string(i), "x"});
  std::multiset<std::string> seen;
  std::string cursor = "0";
  do {
    const std::string reply = world.send({"SCAN", cursor, "COUNT", "7"});
    const std::size_t comma = reply.find(", *[");
    REQUIRE(comma != std::string::npos);
    cursor = reply.substr(3, comma - 3);
    for (std::size_t at = reply.find('$', comma); at != std::string::npos; at = reply.find('$', at + 1))
      seen.insert(reply.substr(at + 1, reply.find_first_of(",]", at) - at - 1));
  } while (cursor != "0");
  CHECK(seen.size() == 100);
  CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == 100);
}

TEST_CASE("the summary of TYPE names what it answers for each kind of value") {
  const std::string_view summary = sepal::command::find_command("type")->summary;
  for (const sepal::value::KindRow* row : sepal::value::kinds) {
    INFO(row->type_name);
    CHECK(summary.find(row->type_name) != std::string_view::npos);
  }
}

}  // namespace key_commands_test
