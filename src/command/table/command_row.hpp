// How the rows of the command table are written. A row stands behind its handler, in the same file. It says
// what it does not share with its family, and few rows say more than this:
//
//     constexpr Family key_row{.group = "generic", .categories = Category::keyspace};
//     key_row("type key", 2, "1.0.0", "Answers what a key names ...", type, Flag::read_only, one_key("RO"))
//
// Behind the handler come parts, in any order. Each kind of part has a type of its own. A row that is wrong
// does not compile.
#pragma once

#include <sepal/command/table/command_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace sepal::command {

// The complexity of a command, if it is not O(1).
struct Cost {
  std::string_view text;
};
struct Tips {
  std::string_view text;
};
// In place of a handler: the error that answers every request.
struct Refused {
  std::string_view text;
};
struct Arity {
  std::int8_t words;
};
struct TogetherTail {
  std::uint8_t words;
};

inline constexpr Tips on_all_shards{"request_policy:all_shards response_policy:all_succeeded"};
inline constexpr Tips on_all_nodes{"request_policy:all_nodes response_policy:all_succeeded"};
inline constexpr Tips one_of_shards{"request_policy:all_shards response_policy:one_succeeded"};
inline constexpr Tips sum_over_shards{"request_policy:multi_shard response_policy:agg_sum"};
inline constexpr Tips least_of_shards{"request_policy:all_shards response_policy:agg_min"};
inline constexpr Tips each_shard_alone{
    "nondeterministic_output request_policy:all_shards response_policy:special"};
inline constexpr Tips each_node_alone{
    "nondeterministic_output request_policy:all_nodes response_policy:special"};
inline constexpr Tips any_output{"nondeterministic_output"};
inline constexpr Tips any_order{"nondeterministic_output_order"};

// Which words are keys. `access` and `note` as in KeyRange.
[[nodiscard]] constexpr KeyRange one_key(std::string_view access, std::string_view note = {}) {
  return {.first = 1, .last = 1, .step = 1, .access = access, .note = note};
}
[[nodiscard]] constexpr KeyRange two_keys(std::string_view access) {
  return {.first = 1, .last = 2, .step = 1, .access = access};
}
[[nodiscard]] constexpr KeyRange every_key(std::string_view access) {
  return {.first = 1, .last = -1, .step = 1, .access = access};
}
[[nodiscard]] constexpr KeyRange keys_and_values(std::string_view access) {
  return {.first = 1, .last = -1, .step = 2, .access = access};
}
[[nodiscard]] constexpr KeyRange key_of_subcommand(std::string_view access) {
  return {.first = 2, .last = 2, .step = 1, .access = access};
}
// The word behind the script says how many keys follow it.
[[nodiscard]] constexpr KeyRange keys_of_script(std::string_view access, std::string_view note = {}) {
  return {.count_at = 2, .access = access, .note = note};
}

// The word at `count_at` says how many keys follow it.
[[nodiscard]] constexpr KeyRange counted_from(std::int8_t count_at, std::string_view access) {
  return {.count_at = count_at, .access = access};
}

// Where the items of a request begin.
constexpr std::size_t items_behind_name(std::span<const std::string_view> /*words*/) {
  return 1;
}
constexpr std::size_t items_behind_key(std::span<const std::string_view> /*words*/) {
  return 2;
}
// Behind the first word ITEMS, which ends the options of BF.INSERT, CF.INSERT and CF.INSERTNX: their parsers
// agree. If it stands where the value of an option should, the request is wrong, and its first part says so.
// The dispatcher asks before it checks the arity, so even the key may be missing. 0: there is no ITEMS.
std::size_t items_behind_word(std::span<const std::string_view> words);
constexpr bool frees_always(std::span<const std::string_view> /*words*/, WallTime /*now*/) {
  return true;
}

// What requests record beside the keys that they name (run/record_bytes.cpp).
std::uint64_t records_items(const RecordAsk& ask);     // adds to a filter or bits, behind the key
std::uint64_t records_adoption(const RecordAsk& ask);  // a filter that came whole
std::uint64_t records_string(const RecordAsk& ask);    // any words behind the key, or a few bytes for each
std::uint64_t records_strings(const RecordAsk& ask);   // a string for each key

// Handlers of rows in several families.
Next answer_refusal(Context& context);   // the text of the row
Next subcommand_help(Context& context);  // CLIENT HELP, CONFIG HELP, ...

// The part of a row that each type of part is.
constexpr void put(CommandSpec& row, Flags part) {
  row.flags = row.flags | part;
}
constexpr void put(CommandSpec& row, Categories part) {
  row.categories = row.categories | part;
}
constexpr void put(CommandSpec& row, const KeyRange& part) {
  row.keys = part;
}
constexpr void put(CommandSpec& row, Cost part) {
  row.complexity = part.text;
}
constexpr void put(CommandSpec& row, Tips part) {
  row.tips = part.text;
}
constexpr void put(CommandSpec& row, Arity part) {
  row.arity = part.words;
}
constexpr void put(CommandSpec& row, KeyUseOf part) {
  row.key_use = part;
}
constexpr void put(CommandSpec& row, AskTest part) {
  row.asks = part;
}
constexpr void put(CommandSpec& row, FreesTest part) {
  row.frees = part;
}
constexpr void put(CommandSpec& row, RecordBytes part) {
  row.record_bytes = part;
}
constexpr void put(CommandSpec& row, ItemsAt part) {
  row.items_at = part;
}
constexpr void put(CommandSpec& row, TogetherHandler part) {
  row.run_together = part;
}
constexpr void put(CommandSpec& row, TogetherTail part) {
  row.together_tail = part.words;
}
constexpr void put(CommandSpec& row, std::span<const CommandSpec> part) {
  row.subcommands = part;
}

constexpr bool has_right_keys(const KeyRange& keys) {
  if (keys.first == 0) return keys.last == 0;
  return keys.first > 0 && keys.step > 0 && (keys.last == -1 || keys.last >= keys.first);
}
// Sorted by name, and named after the command.
constexpr bool has_right_subcommands(const CommandSpec& row) {
  return std::ranges::all_of(row.subcommands,
                             [&](const CommandSpec& each) {
                               return each.name.starts_with(row.name) &&
                                      each.name.substr(row.name.size()).starts_with('|');
                             }) &&
         std::ranges::adjacent_find(row.subcommands, std::ranges::greater_equal{}, &CommandSpec::name) ==
             row.subcommands.end();
}
// What the dispatcher relies on: it looks at the first argument of a request that writes, and at the word in
// which requests differ that run together. Only commands that write are admitted to the journal, so a row
// that says what it records must be one of them.
[[nodiscard]] constexpr bool is_right(const CommandSpec& row) {
  const auto words_min = static_cast<std::size_t>(row.arity < 0 ? -row.arity : row.arity);
  const bool writes = row.flags.has(Flag::write);
  if (row.arity == 0 || (row.run == nullptr && row.subcommands.empty())) return false;
  if (!has_right_keys(row.keys) || !has_right_subcommands(row)) return false;
  if (writes && (row.flags.has(Flag::read_only) || (row.keys.first != 0 && words_min < 2))) return false;
  if ((row.frees != nullptr || row.record_bytes != nullptr) && !writes) return false;
  if (row.record_bytes != nullptr && words_min < 2) return false;
  if (row.flags.has(Flag::key_after_key) && row.keys.first != 1) return false;
  return row.run_together == nullptr || together_index(row, words_min) >= 2;
}
// A wrong row does not compile.
[[nodiscard]] consteval CommandSpec checked(const CommandSpec& row) {
  return is_right(row) ? row : throw "a row breaks a rule of is_right()";
}

// A handler, or the text of a refusal.
struct RowAnswer {
  Handler run;
  std::string_view refusal{};
  constexpr RowAnswer(Handler handler) : run(handler) {}
  constexpr RowAnswer(Refused part) : run(answer_refusal), refusal(part.text) {}
};

// What the rows of a family share.
struct Family {
  std::string_view group{};
  Categories categories{};
  Flags flags{};
  // As in the reference, flags imply categories, but not those of its modules' commands.
  bool flags_imply_categories = true;

  // `usage` is the name, and behind it the arguments: "getex key [PERSIST]".
  template <class... Parts>
  [[nodiscard]] consteval CommandSpec operator()(std::string_view usage, std::int8_t arity,
                                                 std::string_view since, std::string_view summary,
                                                 RowAnswer answer, const Parts&... parts) const {
    const std::size_t name_bytes = std::min(usage.find(' '), usage.size());
    CommandSpec row{.name = usage.substr(0, name_bytes),
                    .arity = arity,
                    .flags = flags,
                    .categories = categories,
                    .summary = summary,
                    .since = since,
                    .group = group,
                    .complexity = "O(1)",
                    .syntax = usage.substr(std::min(name_bytes + 1, usage.size())),
                    .refusal = answer.refusal,
                    .run = answer.run};
    (put(row, parts), ...);
    if (flags_imply_categories) row.categories = row.categories | implied(row);
    return checked(row);
  }

  // The subcommand that lists the others.
  [[nodiscard]] consteval CommandSpec help(std::string_view name, std::string_view since) const {
    const Family family{.group = group, .categories = categories, .flags = Flag::loading | Flag::stale};
    return family(name, 2, since, "Lists the subcommands", subcommand_help);
  }

  // A command that only has subcommands.
  template <class... Parts>
  [[nodiscard]] consteval CommandSpec container(std::string_view name, std::string_view since,
                                                std::string_view summary,
                                                std::span<const CommandSpec> subcommands,
                                                const Parts&... parts) const {
    return Family{.group = group}(name, -2, since, summary, Handler{nullptr}, subcommands,
                                  Cost{"Depends on subcommand."}, parts...);
  }

 private:
  static consteval Categories implied(const CommandSpec& row) {
    Categories implied = row.flags.has(Flag::fast) ? Category::fast : Category::slow;
    if (row.flags.has(Flag::write)) implied = implied | Category::write;
    if (row.flags.has(Flag::read_only) && !row.categories.has(Category::scripting))
      implied = implied | Category::read;
    if (row.flags.has(Flag::admin)) implied = implied | Category::admin | Category::dangerous;
    if (row.flags.has(Flag::blocking)) implied = implied | Category::blocking;
    return implied;
  }
};

}  // namespace sepal::command
