#include "command/table/absent_commands.hpp"

#include <sepal/base/word_list.hpp>
#include <sepal/command/table/command_table.hpp>

#include "support/catch.hpp"
#include "world.hpp"

namespace absent_commands_test {

using sepal::command::absent_groups;
using sepal::command::AbsentGroup;
using sepal::command::find_absent;
using sepal::command::testing::World;

namespace {

// "lists: `BLMOVE` `BLPOP` ...: keys hold ...": a row of the table under "### What Sepal does not have" of
// docs/protocol.md.
std::string documented_row(const AbsentGroup& group) {
  std::string row = "| " + std::string(group.what) + " | ";
  sepal::for_each_word(group.names, [&](std::string_view name) {
    std::string upper(name);
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    row += (row.ends_with("` ") || row.ends_with("`") ? " `" : "`") + upper + "`";
  });
  return row + " | " + std::string(group.reason) + " |";
}

// The rows of the first table of that part, without its head.
std::set<std::string> rows_of_document() {
  std::ifstream file(SEPAL_SOURCE_FOLDER "/docs/protocol.md");
  REQUIRE(file);
  std::set<std::string> rows;
  bool in_part = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) in_part = line == "### What Sepal does not have";
    if (!in_part) continue;
    if (line.starts_with("| ")) {
      if (line != "| what | commands | why |") rows.insert(line);
    } else if (!rows.empty()) {
      break;
    }
  }
  return rows;
}

constexpr std::string_view no_lists =
    "-ERR Sepal has no lists: keys hold filters and strings only (docs/protocol.md, \"What Sepal does "
    "not have\")";

}  // namespace

TEST_CASE("docs/protocol.md lists what Sepal does not have") {
  std::set<std::string> rows;
  for (const AbsentGroup& group : absent_groups()) rows.insert(documented_row(group));
  CHECK(rows_of_document() == rows);
}

TEST_CASE("a command that Sepal does not have is none that it has") {
  for (const AbsentGroup& group : absent_groups()) {
    sepal::for_each_word(group.names, [&](std::string_view name) {
      INFO(name);
      CHECK(sepal::command::find_command(name) == nullptr);
    });
  }
}

TEST_CASE("each name is found in any case, and no other name is") {
  for (const AbsentGroup& group : absent_groups()) {
    CHECK_FALSE(group.names.empty());
    sepal::for_each_word(group.names, [&](std::string_view word) {
      std::string name(word);
      if (name.ends_with('*')) name.back() = 'x';
      INFO(name);
      CHECK(find_absent(name) == &group);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
      CHECK(find_absent(name) == &group);
      if (!word.ends_with('*')) CHECK(find_absent(name + "S") != &group);
    });
  }
  for (const char* name : {"", "a", "nosuch", "zzz", "c", "cf", "bf.add", "get\r\n", "ge", "gett"})
    CHECK(find_absent(name) == nullptr);
  CHECK(find_absent(std::string(1000, 'x')) == nullptr);
  CHECK(find_absent("GEORADIUSBYMEMBER_RO") != nullptr);
  CHECK(find_absent("GEORADIUSBYMEMBER_ROX") == nullptr);
}

TEST_CASE("many different unknown commands are counted under one word") {
  World world;
  for (int round = 0; round < 10'000; ++round) {
    world.send({"SUBSCRIBE", "news"});
    world.send({"NOSUCH" + std::to_string(round)});
  }
  CHECK(world.send({"INFO", "errorstats"}) == "$# Errorstats\r\nerrorstat_ERR:count=20000\r\n");
  CHECK(world.send({"INFO", "commandstats"}).find("subscribe") == std::string::npos);
}

}  // namespace absent_commands_test
