// Compares the table of categories in docs/protocol.md with the categories of the commands.
#include <sepal/command/table/command_table.hpp>

#include <cctype>

#include "command/table/row_category.hpp"
#include "support/catch.hpp"

namespace category_table_test {

using sepal::command::category_names;
using sepal::command::category_of;
using sepal::command::command_table;
using sepal::command::CommandSpec;

namespace {

using Names = std::set<std::string>;

// The document describes these in words alone: nearly every command is in one or two of them.
const Names described = {"read", "write", "fast", "slow"};

// Turns "client|setname" into "CLIENT SETNAME".
std::string as_written(std::string_view name) {
  std::string written(name);
  std::ranges::transform(written, written.begin(), [](unsigned char letter) {
    return letter == '|' ? ' ' : static_cast<char>(std::toupper(letter));
  });
  return written;
}

// The commands and subcommands for which `is_wanted` is true, as ACL CAT lists them.
template <class Test>
Names commands(const Test& is_wanted) {
  Names found;
  const auto take = [&](const CommandSpec& row) {
    if (is_wanted(row)) found.insert(as_written(row.name));
  };
  for (const CommandSpec& row : command_table()) {
    take(row);
    for (const CommandSpec& subcommand : row.subcommands) take(subcommand);
  }
  return found;
}

Names commands_of(std::string_view category) {
  return commands(
      [wanted = category_of(category)](const CommandSpec& row) { return row.categories.has(wanted); });
}

Names commands_that_begin_with(std::string_view begin) {
  return commands([begin](const CommandSpec& row) { return row.name.starts_with(begin); });
}

std::string joined(const Names& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "`" : ", `") + name + "`";
  return list.empty() ? "none" : list;
}

// What the last cell of a category's line has.
std::string cell_of(std::string_view category) {
  const Names names = commands_of(category);
  if (names == commands_that_begin_with("bf.")) return "every `BF` command";
  if (names == commands_that_begin_with("cf.")) return "every `CF` command";
  const Names admin = commands_of("admin");
  if (category == "admin" || !std::ranges::includes(names, admin)) return joined(names);
  Names others;
  std::ranges::set_difference(names, admin, std::inserter(others, others.end()));
  return "all of `@admin`, and " + joined(others);
}

// The lines of the table, by the category.
std::map<std::string, std::string> documented() {
  std::ifstream file(std::filesystem::path(SEPAL_SOURCE_FOLDER) / "docs/protocol.md");
  REQUIRE(file);
  constexpr std::string_view begin = "| `@";
  std::map<std::string, std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(begin)) continue;
    const std::string category = line.substr(begin.size(), line.find('`', begin.size()) - begin.size());
    INFO("a category has two lines: " << category);
    CHECK(lines.emplace(category, line).second);
  }
  return lines;
}

}  // namespace

TEST_CASE("docs/protocol.md has a line for each category, which ends with its commands") {
  std::map<std::string, std::string> lines = documented();
  for (const std::string_view category : category_names) {
    const std::string line = lines[std::string(category)];
    lines.erase(std::string(category));
    INFO("the line of @" << category << " ends with: | " << cell_of(category) << " |");
    if (described.contains(std::string(category)))
      CHECK_FALSE(line.empty());
    else
      CHECK(line.ends_with("| " + cell_of(category) + " |"));
  }
  CHECK(lines.empty());
}

}  // namespace category_table_test
