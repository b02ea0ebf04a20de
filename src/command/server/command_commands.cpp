// Handlers of COMMAND, except COMMAND DOCS, and of every HELP subcommand.

#include <sepal/base/arguments.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/base/word_list.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <bit>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "command/run/refuse.hpp"
#include "command/table/command_index.hpp"
#include "command/table/command_row.hpp"
#include "command/table/compatibility.hpp"
#include "command/table/families.hpp"
#include "command/table/request_keys.hpp"
#include "command/table/row_category.hpp"

namespace sepal::command {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::pair<Flag, std::string_view> flag_names[] = {
    {Flag::write, "write"},
    {Flag::read_only, "readonly"},
    {Flag::deny_oom, "denyoom"},
    {Flag::module, "module"},
    {Flag::admin, "admin"},
    {Flag::no_script, "noscript"},
    {Flag::loading, "loading"},
    {Flag::stale, "stale"},
    {Flag::fast, "fast"},
    {Flag::no_auth, "no_auth"},
    {Flag::no_async_loading, "no_async_loading"},
    {Flag::no_multi, "no_multi"},
    {Flag::blocking, "blocking"},
    {Flag::skip_slowlog, "skip_slowlog"},
    {Flag::allow_busy, "allow_busy"},
    {Flag::skip_monitor, "skip_monitor"},
    {Flag::no_mandatory_keys, "no_mandatory_keys"},
    {Flag::movable_keys, "movablekeys"},
};

// One entry of a command's key specifications. The command does the same to all of its keys.
struct KeySpec {
  std::string_view flags;  // blank separated
  int index = 0;           // the position of the first key
  int last = 0;            // the position of the last key, from the first one; negative: from the end
  bool counted = false;    // the word at `index` counts the keys behind it
};

// The reference has one entry for all keys that a command treats alike. A '/' in `access` makes two: of the
// first key, and of the others. A last key that is relative to the end is negative in both forms.
std::vector<KeySpec> key_specs(const KeyRange& keys) {
  const KeyAccess access = access_of(keys);
  if (keys.count_at != 0) {
    const KeySpec counted{.flags = access.of_others, .index = keys.count_at, .counted = true};
    if (keys.first == 0) return {counted};
    return {{.flags = access.of_first, .index = keys.first}, counted};
  }
  if (keys.first == 0) return {};
  if (access.of_first.size() == keys.access.size()) {
    return {{.flags = keys.access,
             .index = keys.first,
             .last = keys.last < 0 ? keys.last : keys.last - keys.first}};
  }
  const int last = keys.last < 0 ? keys.last : 0;
  return {{.flags = access.of_first, .index = keys.first, .last = 0},
          {.flags = access.of_others, .index = keys.first + keys.step, .last = last}};
}

void append_flags(resp::Reply& reply, std::string_view blank_separated) {
  reply.set(word_count(blank_separated));
  for_each_word(blank_separated, [&](std::string_view flag) { reply.simple(flag); });
}

// How a specification finds keys: in a range, or behind a word that counts them.
void append_key_finder(resp::Reply& reply, const KeySpec& spec, const KeyRange& keys) {
  const bool counted = spec.counted;
  reply.field("find_keys").map(2);
  reply.field("type").bulk(counted ? "keynum" : "range");
  reply.field("spec").map(3);
  reply.bulk(counted ? "keynumidx" : "lastkey");
  // Counted keys are described from the word with their number, which is the begin of the search: that word
  // is 0, and the first key 1.
  reply.integer(counted ? 0 : spec.last);
  reply.bulk(counted ? "firstkey" : "keystep");
  reply.integer(counted ? 1 : keys.step);
  reply.bulk(counted ? "keystep" : "limit");
  reply.integer(counted ? 1 : 0);
}

void append_key_spec(resp::Reply& reply, const KeySpec& spec, const KeyRange& keys) {
  reply.map(keys.note.empty() ? 3 : 4);
  if (!keys.note.empty()) {
    reply.field("notes").bulk(keys.note);
  }
  reply.bulk("flags");
  append_flags(reply, spec.flags);
  reply.field("begin_search").map(2);
  reply.field("type").bulk("index");
  reply.field("spec").map(1);
  reply.field("index").integer(spec.index);
  append_key_finder(reply, spec, keys);
}

void append_row(resp::Reply& reply, const CommandSpec& row) {
  constexpr std::size_t fields = 10;
  reply.array(fields);
  reply.bulk(row.name);
  reply.integer(row.arity);
  std::vector<std::string_view> flags;
  for (const auto& [flag, name] : flag_names)
    if (row.flags.has(flag)) flags.push_back(name);
  reply.set(flags.size());
  for (const std::string_view flag : flags) reply.simple(flag);
  reply.integer(row.keys.first);
  reply.integer(row.keys.last);
  reply.integer(row.keys.step);
  reply.set(static_cast<std::size_t>(std::popcount(row.categories.bits)));
  for_each_category(row.categories, [&](std::string_view name) { reply.simple("@" + std::string(name)); });
  reply.set(word_count(row.tips));
  for_each_word(row.tips, [&](std::string_view tip) { reply.bulk(tip); });
  const std::vector<KeySpec> specs = key_specs(row.keys);
  reply.set(specs.size());
  for (const KeySpec& spec : specs) append_key_spec(reply, spec, row.keys);
  reply.set(row.subcommands.size());
  for (const CommandSpec& subcommand : row.subcommands) append_row(reply, subcommand);
}

using RowFilter = std::function<bool(const CommandSpec&)>;

// The filter that [FILTERBY kind argument] asks for; nothing if the words are not a filter. It keeps a view
// of the request's words, so it must not outlive the request.
std::optional<RowFilter> parse_filter(Words words) {
  if (words.empty()) return [](const CommandSpec&) { return true; };
  if (words.size() != 3 || !equal_ignoring_case(words[0], "FILTERBY")) return std::nullopt;
  const std::string_view argument = words[2];
  if (equal_ignoring_case(words[1], "MODULE")) {
    const bool known = argument == bloom_module_name;
    return [known](const CommandSpec& row) { return known && row.flags.has(Flag::module); };
  }
  if (equal_ignoring_case(words[1], "ACLCAT"))
    return [wanted = category_of(argument)](const CommandSpec& row) { return row.categories.has(wanted); };
  if (equal_ignoring_case(words[1], "PATTERN"))
    return [argument](const CommandSpec& row) { return matches_name(argument, row.name); };
  return std::nullopt;
}

// The row of the request that follows COMMAND GETKEYS, or the error if that request has no keys.
struct KeyQuestion {
  const CommandSpec* row = nullptr;
  std::string_view refused{};
};
KeyQuestion ask_for_keys(Words words) {
  const CommandSpec* const row = row_for(words);
  if (row == nullptr) return {.row = nullptr, .refused = text::invalid_command};
  if (row->keys.first == 0 && row->keys.count_at == 0) return {.row = row, .refused = text::no_key_arguments};
  if (!arity_fits(*row, words.size())) return {.row = row, .refused = text::invalid_argument_count};
  // The arity fits, so the word with the number is there.
  if (row->keys.count_at != 0 && !counted_keys(*row, words))
    return {.row = row, .refused = text::invalid_argument_count};
  return {.row = row};
}

std::size_t key_count(const CommandSpec& row, Words words) {
  std::size_t count = 0;
  for_each_key(row, words, [&](std::size_t, std::string_view) { ++count; });
  return count;
}

// Answers the keys of the request that follows the subcommand. `append` encodes each key.
template <class Append>
Next answer_keys(Context& context, const Append& append) {
  const Words words = context.words.subspan(2);
  const KeyQuestion question = ask_for_keys(words);
  if (!question.refused.empty()) return refuse(context, question.refused);
  // Two walks over the words, because the reply begins with the number of keys.
  context.reply.array(key_count(*question.row, words));
  for_each_key(*question.row, words,
               [&](std::size_t at, std::string_view flags) { append(words[at], flags); });
  return Next::done;
}

Next command_info(Context& context) {
  resp::Reply& reply = context.reply;
  // COMMAND without a subcommand comes here as well, and has one word.
  const Words names = context.words.size() > 2 ? context.words.subspan(2) : Words{};
  if (names.size() > described_names_max) return refuse(context, too_many_names());
  if (names.empty()) {
    reply.array(command_table().size());
    for (const CommandSpec& row : command_table()) append_row(reply, row);
    return Next::done;
  }
  reply.array(names.size());
  for (const std::string_view name : names) {
    if (const CommandSpec* const row = find_row(name)) {
      append_row(reply, *row);
    } else {
      reply.null();
    }
  }
  return Next::done;
}

Next command_count(Context& context) {
  return answer_count(context, command_table().size());
}

Next command_list(Context& context) {
  const std::optional<RowFilter> filter = parse_filter(context.words.subspan(2));
  if (!filter) return refuse(context, text::syntax);
  // Their number stands in front of them, so they are collected first.
  std::vector<std::string_view> names;
  for_each_row([&](const CommandSpec& row) {
    if ((*filter)(row)) names.push_back(row.name);
  });
  context.reply.array(names.size());
  for (const std::string_view name : names) context.reply.bulk(name);
  return Next::done;
}

Next command_get_keys(Context& context) {
  return answer_keys(context, [&](std::string_view key, std::string_view) { context.reply.bulk(key); });
}

Next command_get_keys_and_flags(Context& context) {
  return answer_keys(context, [&](std::string_view key, std::string_view flags) {
    context.reply.array(2);
    context.reply.bulk(key);
    append_flags(context.reply, flags);
  });
}

constexpr Family description_row{
    .group = "server", .categories = Category::connection, .flags = Flag::loading | Flag::stale};

constexpr CommandSpec command_subcommands[] = {
    description_row("command|count", 2, "2.8.13", "Answers the number of commands", command_count),
    description_row("command|docs [command-name [command-name ...]]", -2, "7.0.0",
                    "Answers the documentation of commands", command_docs,
                    Cost{"O(N) where N is the number of commands asked for"}, any_order),
    description_row("command|getkeys command [arg [arg ...]]", -3, "2.8.13",
                    "Answers which words of a request are keys", command_get_keys,
                    Cost{"O(N) where N is the number of words"}),
    description_row("command|getkeysandflags command [arg [arg ...]]", -3, "7.0.0",
                    "Answers which words of a request are keys, and what is done to them",
                    command_get_keys_and_flags, Cost{"O(N) where N is the number of words"}),
    description_row.help("command|help", "5.0.0"),
    description_row("command|info [command-name [command-name ...]]", -2, "2.8.13",
                    "Answers arity, flags and keys of commands", command_info,
                    Cost{"O(N) where N is the number of commands asked for"}, any_order),
    description_row("command|list [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", -2,
                    "7.0.0", "Answers the names of commands", command_list,
                    Cost{"O(N) where N is the number of commands"}, any_order),
};

constexpr CommandSpec command_family[] = {
    description_row("command", -1, "2.8.13", "Answers arity, flags and keys of all commands", command_info,
                    Cost{"O(N) where N is the number of commands"}, any_order, command_subcommands),
};

}  // namespace

Next subcommand_help(Context& context) {
  // One handler serves every HELP: the name of its row ("config|help") tells the container.
  const std::string_view container_name = context.spec.name.substr(0, context.spec.name.find('|'));
  const CommandSpec& container = *find_command(container_name);
  const std::string name = upper_case(container_name);
  constexpr std::size_t lines_each = 2;
  context.reply.array(1 + lines_each * container.subcommands.size());
  context.reply.simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const CommandSpec& row : container.subcommands) {
    std::string line = upper_case(row.name.substr(container_name.size() + 1));
    if (!row.syntax.empty()) line.append(" ").append(row.syntax);
    context.reply.simple(line);
    context.reply.simple("    " + std::string(row.summary) + ".");
  }
  return Next::done;
}

constinit const Rows command_rows = command_family;

}  // namespace sepal::command
