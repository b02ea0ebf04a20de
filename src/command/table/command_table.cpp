// The table and its index, which are made when the process starts.
//
// The index is an open-addressing table over the names of commands. A name's slot is made from its length and
// three of its bytes, in lower case. That is cheaper than a hash of all bytes, which every request would pay,
// and enough to tell commands apart: an assertion bounds the longest search. The comparison of whole names
// at the slot decides. A command has few subcommands, so they are searched one by one.

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/table/command_table.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "command/table/command_index.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

constexpr std::size_t slot_count = 512;
// The bound is for names of the table. The search for another name ends at an empty slot, and at least half
// of the slots are empty. Most names stand at their slot or at the next. A new command may stand further off.
constexpr std::size_t probes_max = 8;

// `name` is not empty.
constexpr std::size_t slot_of(std::string_view name) {
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(lower(name[at])));
  };
  return (name.size() + byte(0) * 23 + byte(name.size() / 2) * 33 + byte(name.size() - 1)) % slot_count;
}

struct Table {
  std::vector<CommandSpec> rows;  // the commands, sorted by name, and behind them all subcommands
  std::size_t command_count = 0;
  std::array<const CommandSpec*, slot_count> slots{};  // of the commands
};

// So each row has a number, and COMMAND may be answered in the order of names.
void join_families(Table& table) {
  std::size_t row_count = 0;
  for (const Rows* const family : families) {
    table.command_count += family->size();
    row_count += family->size();
    for (const CommandSpec& command : *family) row_count += command.subcommands.size();
  }
  SEPAL_ASSERT(row_count <= command_rows_max, "the sets of rows have a size");
  table.rows.reserve(row_count);
  for (const Rows* const family : families)
    table.rows.insert(table.rows.end(), family->begin(), family->end());
  std::ranges::sort(table.rows, {}, &CommandSpec::name);
  for (std::size_t at = 0; at < table.command_count; ++at) {
    const Rows subcommands = table.rows[at].subcommands;
    table.rows[at].subcommands = {table.rows.data() + table.rows.size(), subcommands.size()};
    table.rows.insert(table.rows.end(), subcommands.begin(), subcommands.end());
  }
}

void fill_index(Table& table) {
  SEPAL_ASSERT(slot_count >= 2 * table.command_count, "a fuller index means longer runs");
  for (const CommandSpec& row : Rows(table.rows).first(table.command_count)) {
    std::size_t slot = slot_of(row.name);
    std::size_t probes = 1;
    for (; table.slots[slot] != nullptr; ++probes) {
      SEPAL_ASSERT(table.slots[slot]->name != row.name, "two commands have one name");
      slot = (slot + 1) % slot_count;
    }
    SEPAL_ASSERT(probes <= probes_max, "choose other factors");
    table.slots[slot] = &row;
  }
}

const Table table = [] {
  Table made;
  join_families(made);
  fill_index(made);
  return made;
}();

// The names of the table are in lower case.
bool is_named(const CommandSpec& row, std::string_view name) {
  return std::ranges::equal(row.name, name, {}, {}, lower);
}

}  // namespace

std::span<const CommandSpec> command_table() {
  return Rows(table.rows).first(table.command_count);
}

const CommandSpec* find_command(std::string_view name) {
  if (name.empty()) return nullptr;
  for (std::size_t slot = slot_of(name); table.slots[slot] != nullptr; slot = (slot + 1) % slot_count)
    if (is_named(*table.slots[slot], name)) return table.slots[slot];
  return nullptr;
}

const CommandSpec* find_subcommand(const CommandSpec& container, std::string_view word) {
  const std::size_t head_bytes = container.name.size() + 1;  // "client|"
  for (const CommandSpec& row : container.subcommands)
    if (equal_ignoring_case(row.name.substr(head_bytes), word)) return &row;
  return nullptr;
}

const CommandSpec* find_row(std::string_view name) {
  const std::size_t bar = name.find('|');
  const CommandSpec* const command = find_command(name.substr(0, bar));
  if (command == nullptr || bar == std::string_view::npos) return command;
  return find_subcommand(*command, name.substr(bar + 1));
}

const CommandSpec* row_for(std::span<const std::string_view> words) {
  const CommandSpec* const command = find_command(words[0]);
  if (command == nullptr || command->subcommands.empty() || words.size() == 1) return command;
  const CommandSpec* const subcommand = find_subcommand(*command, words[1]);
  // The command's own row stands for an unknown subcommand: obstacle_to() knows it by that.
  return subcommand != nullptr ? subcommand : command;
}

std::size_t command_row_count() {
  return table.rows.size();
}

std::size_t command_row(const CommandSpec& spec) {
  const auto row = static_cast<std::size_t>(&spec - table.rows.data());
  SEPAL_ASSERT(row < table.rows.size(), "a row that is not in the table");
  return row;
}

}  // namespace sepal::command
