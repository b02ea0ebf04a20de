// Long requests run in parts: the answer of the whole, and what other clients may do between two parts.
#include <sepal/command/run/partial_run.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace sepal::command::partial_run_test {
namespace {

using testing::World;
using Names = std::vector<std::string>;

// No item is mistaken for another.
const keyspace::KeyspaceOptions precise{.error_rate = 1e-12};

constexpr std::size_t many = whole_items_max + 3 * part_items_max / 2;

Names names(std::string_view prefix, std::size_t count) {
  Names made;
  for (std::size_t number = 0; number < count; ++number)
    made.push_back(std::string(prefix) + std::to_string(number));
  return made;
}

std::string send(World& world, std::vector<std::string_view> head, const Names& items) {
  head.insert(head.end(), items.begin(), items.end());
  return world.send_words("a", head);
}

// "*[:1, :1, ...]"
std::string array_of(std::size_t count, std::string_view element) {
  std::string text = "*[";
  for (std::size_t i = 0; i < count; ++i) text.append(i == 0 ? "" : ", ").append(element);
  return text + "]";
}

// Not shown when they differ: they are long.
bool same(const std::string& one, const std::string& other) {
  return one == other;
}

// Does something once, between two parts of the next long request.
void once(World& world, std::function<void()> what) {
  world.between_parts = [&world, what = std::move(what)](int parts) {
    if (parts != 2) return;
    const std::function<void(int)> kept = std::exchange(world.between_parts, {});
    what();
  };
}

TEST_CASE("a request of as many items as run whole is not cut, with one more it is", "[command]") {
  World world(precise);
  send(world, {"BF.MEXISTS", "k"}, names("i", whole_items_max));
  CHECK(world.parts_before_the_last == 0);
  send(world, {"BF.MEXISTS", "k"}, names("i", whole_items_max + 1));
  CHECK(world.parts_before_the_last == static_cast<int>(whole_items_max / part_items_max));
}

TEST_CASE("the answers of the parts are one answer", "[command]") {
  World world(precise);
  const Names items = names("i", many);
  CHECK(same(send(world, {"BF.MADD", "k"}, items), array_of(many, ":1")));
  CHECK(same(send(world, {"BF.MADD", "k"}, items), array_of(many, ":0")));
  CHECK(same(send(world, {"BF.MEXISTS", "k"}, items), array_of(many, ":1")));
  CHECK(
      same(send(world, {"BF.INSERT", "other", "CAPACITY", "100000", "items"}, items), array_of(many, ":1")));
  CHECK(world.send({"BF.INFO", "other", "CAPACITY"}) == "*[:100000]");
  world.send({"HELLO", "3"});
  CHECK(same(send(world, {"BF.MEXISTS", "k"}, items), array_of(many, "#t")));
}

TEST_CASE("integers of the parts are added up", "[command]") {
  World world(precise);
  const Names keys = names("key", many);
  for (const std::string& key : keys) world.send({"BF.ADD", key, "a"});
  const std::string count = ":" + std::to_string(many);
  CHECK(send(world, {"EXISTS", "absent"}, keys) == count);
  CHECK(send(world, {"TOUCH"}, keys) == count);
  CHECK(send(world, {"DEL", "absent"}, keys) == count);
  CHECK(world.send({"DBSIZE"}) == ":0");
}

TEST_CASE("a long request is counted once, and so is its key", "[command]") {
  World world(precise);
  world.send({"BF.ADD", "k", "a"});
  const std::uint64_t requests = world.workers[0].requests.get();
  send(world, {"BF.MEXISTS", "k"}, names("i", many));
  CHECK(world.workers[0].requests.get() == requests + 1);
  CHECK(world.connection("a").client.request_count == requests + 1);
  CHECK(world.workers[0].key_hits.get() == 1);
  send(world, {"EXISTS"}, names("absent", many));
  CHECK(world.workers[0].key_misses.get() == many);
}

TEST_CASE("wrong long requests are answered as short ones are", "[command]") {
  World world(precise);
  const Names items = names("i", many);
  CHECK(send(world, {"BF.INSERT", "k", "FOO"}, items) == world.send({"BF.INSERT", "k", "FOO", "i", "j"}));
  CHECK(send(world, {"BF.INSERT", "k", "ERROR", "2", "ITEMS"}, items) ==
        world.send({"BF.INSERT", "k", "ERROR", "2", "ITEMS", "i"}));
  CHECK(send(world, {"BF.INSERT", "k", "NOCREATE", "ITEMS"}, items) == "-ERR not found");
  CHECK(world.workers[0].requests.get() == 5);
  CHECK(world.workers[0].error_replies.get() == 5);
}

TEST_CASE("where the first words are many or long, so are the parts", "[command]") {
  World world(precise);
  std::vector<std::string_view> head{"BF.INSERT", "k"};
  head.insert(head.end(), 10'000, "NOCREATE");
  head.emplace_back("ITEMS");
  world.send({"BF.ADD", "k", "a"});
  CHECK(same(send(world, head, names("i", 40'000)), array_of(40'000, ":1")));
  CHECK(world.parts_before_the_last == 0);
  const std::string key(1'000'000, 'k');
  send(world, {"BF.MEXISTS", key}, names("i", 10'000));
  CHECK(world.parts_before_the_last == 0);
}

TEST_CASE("the array ends at the first item that a full filter refuses", "[command]") {
  World world(precise);
  const auto refuses_at =
      GENERATE(std::size_t{0}, part_items_max - 1, part_items_max, 2 * part_items_max + 7);
  world.send(
      {"BF.RESERVE", "k", "1e-12", std::to_string(std::max<std::size_t>(refuses_at, 1)), "NONSCALING"});
  if (refuses_at == 0) world.send({"BF.ADD", "k", "first"});
  std::string expected = array_of(refuses_at, ":1");
  expected.insert(expected.size() - 1,
                  std::string(refuses_at == 0 ? "" : ", ") + "-ERR non scaling filter is full");
  std::string answered = send(world, {"BF.MADD", "k"}, names("i", many));
  CHECK(same(answered, expected));
  CHECK(world.workers[0].error_replies.get() == 1);
}

TEST_CASE("items go to the filter that has the key when their part runs", "[command]") {
  World world(precise);
  const Names items = names("i", many);
  world.send({"BF.RESERVE", "k", "1e-12", "100000"});
  SECTION("deleted: a new filter gets the rest") {
    once(world, [&] { world.send_from("b", {"DEL", "k"}); });
    CHECK(same(send(world, {"BF.MADD", "k"}, items), array_of(many, ":1")));
    CHECK(world.send({"BF.CARD", "k"}) == ":" + std::to_string(many - 2 * part_items_max));
    CHECK(world.send({"BF.INFO", "k", "CAPACITY"}) != "*[:100000]");
  }
  SECTION("deleted, and not to be created: the array ends with the error") {
    once(world, [&] { world.send_from("b", {"DEL", "k"}); });
    std::string expected = array_of(2 * part_items_max, ":1");
    expected.insert(expected.size() - 1, ", -ERR not found");
    CHECK(same(send(world, {"BF.INSERT", "k", "NOCREATE", "ITEMS"}, items), expected));
    CHECK(world.send({"EXISTS", "k"}) == ":0");
  }
  SECTION("renamed: the rest does not follow") {
    once(world, [&] { world.send_from("b", {"RENAME", "k", "other"}); });
    CHECK(same(send(world, {"BF.MADD", "k"}, items), array_of(many, ":1")));
    CHECK(world.send({"BF.CARD", "other"}) == ":" + std::to_string(2 * part_items_max));
    CHECK(world.send({"BF.CARD", "k"}) == ":" + std::to_string(many - 2 * part_items_max));
  }
  SECTION("replaced: look-ups ask the new one") {
    send(world, {"BF.MADD", "k"}, items);
    world.send({"BF.RESERVE", "empty", "0.01", "1000"});
    once(world, [&] { world.send_from("b", {"RENAME", "empty", "k"}); });
    const std::string answered = send(world, {"BF.MEXISTS", "k"}, items);
    CHECK(std::ranges::count(answered, '1') == static_cast<std::ptrdiff_t>(2 * part_items_max));
  }
}

TEST_CASE("a journal that refuses in the middle ends the request", "[command]") {
  World world(precise);
  world.services.logs = world.recording.all_logs();
  const Names keys = names("key", many);
  for (const std::string& key : keys) world.send({"BF.ADD", key, "a"});
  once(world, [&] { world.recording.admission = keyspace::Admission::refused; });
  CHECK(send(world, {"DEL"}, keys).starts_with("-MISCONF"));
  CHECK(world.send({"DBSIZE"}) == ":" + std::to_string(many - 2 * part_items_max));

  world.recording.admission = keyspace::Admission::granted;
  once(world, [&] { world.recording.admission = keyspace::Admission::refused; });
  const std::string answered = send(world, {"BF.MADD", "k"}, keys);
  CHECK(std::ranges::count(answered, ',') == static_cast<std::ptrdiff_t>(2 * part_items_max));
  CHECK(answered.find(", -MISCONF") != std::string::npos);
}

TEST_CASE("KEYS and SCAN answer each key that stays once, whatever comes and goes between their parts",
          "[command]") {
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

TEST_CASE("KEYS and SCAN of a long pattern and a long key let other clients run", "[command]") {
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

TEST_CASE("SCAN ends where its reply has got long, whatever its COUNT", "[command][partial]") {
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
