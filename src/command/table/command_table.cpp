// The table and its index. The compiler makes both.
//
// The index is an open-addressing table over the names of commands. A name's slot is made from its length and
// three of its bytes, in lower case. That is cheaper than a hash of all bytes, which every request would pay,
// and enough to tell commands apart: a static_assert bounds the longest search. The comparison of whole names
// at the slot decides. A command has few subcommands, so they are searched one by one.

#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/table/command_table.hpp>

#include <algorithm>
#include <array>
#include <functional>

#include "command/table/command_index.hpp"
#include "command/table/table_acl.hpp"
#include "command/table/table_bloom.hpp"
#include "command/table/table_connection.hpp"
#include "command/table/table_expire.hpp"
#include "command/table/table_keys.hpp"
#include "command/table/table_object.hpp"
#include "command/table/table_observing.hpp"
#include "command/table/table_replication.hpp"
#include "command/table/table_scripting.hpp"
#include "command/table/table_server.hpp"
#include "command/table/table_strings.hpp"
#include "command/table/table_transactions.hpp"
#include "command/table/table_whole.hpp"

namespace sepal::command {
namespace {

constexpr std::size_t top_row_count =
    std::size(about_key_rows) + std::size(access_rows) + std::size(bitmap_rows) + std::size(bloom_rows) +
    std::size(connection_rows) + std::size(expire_rows) + std::size(key_rows) + std::size(observing_rows) +
    std::size(replication_rows) + std::size(scripting_rows) + std::size(server_rows) +
    std::size(string_rows) + std::size(transaction_rows) + std::size(whole_rows);

constexpr auto joined_and_sorted() {
  std::array<CommandSpec, top_row_count> rows;
  auto* at = std::ranges::copy(about_key_rows, rows.begin()).out;
  at = std::ranges::copy(access_rows, at).out;
  at = std::ranges::copy(bitmap_rows, at).out;
  at = std::ranges::copy(bloom_rows, at).out;
  at = std::ranges::copy(connection_rows, at).out;
  at = std::ranges::copy(expire_rows, at).out;
  at = std::ranges::copy(key_rows, at).out;
  at = std::ranges::copy(observing_rows, at).out;
  at = std::ranges::copy(replication_rows, at).out;
  at = std::ranges::copy(scripting_rows, at).out;
  at = std::ranges::copy(server_rows, at).out;
  at = std::ranges::copy(string_rows, at).out;
  at = std::ranges::copy(transaction_rows, at).out;
  std::ranges::copy(whole_rows, at);
  std::ranges::sort(rows, {}, &CommandSpec::name);
  return rows;
}
constexpr std::array<CommandSpec, top_row_count> table = joined_and_sorted();

constexpr bool sorted_and_unique(std::span<const CommandSpec> rows) {
  return std::ranges::adjacent_find(rows, std::ranges::greater_equal{}, &CommandSpec::name) == rows.end();
}
static_assert(sorted_and_unique(table));
static_assert(sorted_and_unique(acl_rows));
static_assert(sorted_and_unique(client_rows) && sorted_and_unique(command_rows));
static_assert(sorted_and_unique(config_rows) && sorted_and_unique(module_rows));
static_assert(sorted_and_unique(memory_rows) && sorted_and_unique(object_rows));
static_assert(sorted_and_unique(function_rows) && sorted_and_unique(script_rows));
static_assert(sorted_and_unique(latency_rows) && sorted_and_unique(slow_log_rows));

// All arrays of rows, in the order in which rows are numbered. The numbers live in memory only (statistics
// and sets of rows), so a new array may stand anywhere.
constexpr std::span<const CommandSpec> row_spans[] = {
    table,        acl_rows,    client_rows, command_rows, config_rows, function_rows,
    latency_rows, memory_rows, module_rows, object_rows,  script_rows, slow_log_rows};

constexpr std::size_t total_row_count = [] {
  std::size_t count = 0;
  for (const auto rows : row_spans) count += rows.size();
  return count;
}();

static_assert(total_row_count <= command_rows_max);

constexpr std::size_t words_min(const CommandSpec& row) {
  return static_cast<std::size_t>(row.arity < 0 ? -row.arity : row.arity);
}
constexpr bool has_right_keys(const KeyRange& keys) {
  if (keys.first == 0) return keys.last == 0;
  return keys.first > 0 && keys.step > 0 && (keys.last == -1 || keys.last >= keys.first);
}
// What the dispatcher relies on: it looks at the first argument of a request that writes, and at the word in
// which requests differ that run together. Only commands that write are admitted to the journal, so a row
// that records bytes in some way must be one of them.
constexpr bool is_right(const CommandSpec& row) {
  const bool writes = row.flags.has(Flag::write);
  if (row.arity == 0 || (row.run == nullptr && row.subcommands.empty()) || !has_right_keys(row.keys))
    return false;
  if (writes && (row.flags.has(Flag::read_only) || (row.keys.first != 0 && words_min(row) < 2))) return false;
  if ((row.frees != nullptr || row.flags.has(Flag::string) || row.flags.has(Flag::adopts)) && !writes)
    return false;
  if (row.flags.has(Flag::string) && words_min(row) < 2) return false;
  return row.run_together == nullptr || together_index(row, words_min(row)) >= 2;
}
constexpr bool has_right_subcommands(const CommandSpec& row) {
  return std::ranges::all_of(row.subcommands, [&](const CommandSpec& each) {
    return each.name.starts_with(row.name) && each.name.substr(row.name.size()).starts_with('|');
  });
}
static_assert(std::ranges::all_of(row_spans, [](std::span<const CommandSpec> rows) {
  return std::ranges::all_of(rows, is_right) && std::ranges::all_of(rows, has_right_subcommands);
}));

constexpr std::size_t slot_count = 256;
static_assert(slot_count >= 2 * top_row_count, "a fuller index means longer runs");

// `name` is not empty.
constexpr std::size_t slot_of(std::string_view name) {
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(lower(name[at])));
  };
  return (name.size() + byte(0) * 23 + byte(name.size() / 2) * 33 + byte(name.size() - 1)) % slot_count;
}

struct Index {
  std::array<const CommandSpec*, slot_count> slots{};
  std::size_t probes_max = 0;
};
constexpr Index index = [] {
  Index made;
  for (const CommandSpec& row : table) {
    std::size_t slot = slot_of(row.name);
    std::size_t probes = 1;
    for (; made.slots[slot] != nullptr; ++probes) slot = (slot + 1) % slot_count;
    made.slots[slot] = &row;
    made.probes_max = std::max(made.probes_max, probes);
  }
  return made;
}();
// The bound is for names of the table. The search for another name ends at an empty slot, and at least half
// of the slots are empty.
static_assert(index.probes_max <= 3, "choose other factors");

// The names of the table are in lower case.
bool is_named(const CommandSpec& row, std::string_view name) {
  return std::ranges::equal(row.name, name, {}, {}, lower);
}

}  // namespace

std::span<const CommandSpec> command_table() {
  return table;
}

const CommandSpec* find_command(std::string_view name) {
  if (name.empty()) return nullptr;
  for (std::size_t slot = slot_of(name); index.slots[slot] != nullptr; slot = (slot + 1) % slot_count)
    if (is_named(*index.slots[slot], name)) return index.slots[slot];
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
  // The command's own row stands for an unknown subcommand: obstacle_to() in dispatcher.cpp knows it by that.
  return subcommand != nullptr ? subcommand : command;
}

std::size_t command_row_count() {
  return total_row_count;
}

std::size_t command_row(const CommandSpec& spec) {
  std::size_t first = 0;
  for (const auto rows : row_spans) {
    const CommandSpec* const begin = rows.data();
    // The language orders pointers into different arrays only with std::less.
    if (!std::less<>()(&spec, begin) && std::less<>()(&spec, begin + rows.size()))
      return first + static_cast<std::size_t>(&spec - begin);
    first += rows.size();
  }
  SEPAL_ASSERT(false, "a row that is not in the table");
  return 0;
}

}  // namespace sepal::command
