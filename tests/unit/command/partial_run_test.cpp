// Long requests run in parts: the answer of the whole, and what other clients may do between two parts.
#include <sepal/command/run/partial_run.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace sepal::command::partial_run_test {
namespace {

using testing::World;
using Names = std::vector<std::string>;

// No item is mistaken for another.
const keyspace::KeyspaceOptions precise{.error_rate = 1e-12};

Names names(std::string_view prefix, std::size_t count) {
  Names made;
  for (std::size_t number = 0; number < count; ++number)
    made.push_back(std::string(prefix) + std::to_string(number));
  return made;
}

TEST_CASE("KEYS and SCAN answer each key that stays once, whatever comes and goes between their parts") {
  World world(precise);
  const Names stay = names("stay", 3 * part_items_max);
  const Names go = names("go", part_items_max);
  for (const Names* each : {&stay, &go})
    for (const std::string& key : *each) world.send({"BF.ADD", key, "a"});
  const auto command = GENERATE(0, 1);
  world.between_parts = [&](int parts) {
    const std::string number = std::to_string(parts);
    world.send_from("b", {"DEL", "go" + number});
    world.send_from("b", {"BF.ADD", "come" + number, "a"});
    for (int i = 0; i < 200; ++i)
      world.send_from("b", {"BF.ADD", "more" + number + "," + std::to_string(i), "a"});
  };
  const std::string answered = command == 0 ? world.send({"KEYS", "stay*"})
                                            : world.send({"SCAN", "0", "COUNT", "1000000", "MATCH", "stay*"});
  CHECK(world.parts_before_the_last >= 3);
  CHECK(static_cast<std::size_t>(std::ranges::count(answered, '$')) ==
        stay.size() + static_cast<std::size_t>(command));
  for (const std::string& key : stay) CHECK(answered.find("$" + key) != std::string::npos);
}

TEST_CASE("KEYS and SCAN of a long pattern and a long key let other clients run") {
  World world(precise);
  const std::string key(20'000, 'a');
  world.send({"BF.ADD", key, "a"});
  world.send({"BF.ADD", "short", "a"});
  const std::string pattern = "*" + std::string(5'000, 'a') + "b*";
  const std::string matching = "*" + std::string(5'000, 'a') + "[^b]*";
  const auto command = GENERATE(0, 1);
  const auto ask = [&](const std::string& with) {
    world.parts_before_the_last = 0;
    return command == 0 ? world.send({"KEYS", with}) : world.send({"SCAN", "0", "MATCH", with});
  };
  CHECK(ask(pattern) == (command == 0 ? "*[]" : "*[$0, *[]]"));
  CHECK(world.parts_before_the_last > 100);
  CHECK(ask(matching) == (command == 0 ? "*[$" + key + "]" : "*[$0, *[$" + key + "]]"));
  CHECK(ask("s*") == (command == 0 ? "*[$short]" : "*[$0, *[$short]]"));
  CHECK(world.parts_before_the_last == 0);
}

TEST_CASE("SCAN ends where its reply has got long, whatever its COUNT") {
  World world;
  Names all;
  for (int number = 0; number < 600; ++number) {
    all.push_back(std::to_string(number) + std::string(20'000, 'k'));
    world.send({"SET", all.back(), "x"});
  }
  std::string cursor = "0";
  std::string found;
  int scans = 0;
  do {
    const std::string reply = world.send({"SCAN", cursor, "COUNT", "1000000000"});
    found += reply;
    cursor = reply.substr(3, reply.find(',') - 3);
    ++scans;
  } while (cursor != "0");
  CHECK(scans > 1);
  for (const std::string& key : all) {
    const std::size_t at = found.find("$" + key.substr(0, key.find('k') + 1));
    REQUIRE(at != std::string::npos);
    CHECK(found.find("$" + key.substr(0, key.find('k') + 1), at + 1) == std::string::npos);
  }
}

}  // namespace
}  // namespace sepal::command::partial_run_test
