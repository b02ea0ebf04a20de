// COMMAND DOCS: made from the rows of the command table.

#include <sepal/base/syntax.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <vector>

#include "command/run/refuse.hpp"
#include "command/table/command_index.hpp"
#include "command/table/compatibility.hpp"

namespace sepal::command {
namespace {

void append_pair(resp::Reply& reply, std::string_view name, std::string_view value) {
  reply.bulk(name);
  reply.bulk(value);
}

bool shows_its_name(const SyntaxArgument& argument) {
  return argument.type != "block" && argument.type != "oneof";
}

// `key_index` is the index of the next key specification; each key argument takes one.
void append_argument(resp::Reply& reply, const SyntaxArgument& argument, std::int64_t& key_index) {
  const bool is_key = argument.type == "key";
  const bool flagged = argument.optional || argument.repeated;
  reply.map(2 + (shows_its_name(argument) ? 1u : 0u) + (is_key ? 1u : 0u) +
            (argument.token.empty() ? 0u : 1u) + (flagged ? 1u : 0u) +
            (argument.arguments.empty() ? 0u : 1u));
  append_pair(reply, "name", argument.name);
  append_pair(reply, "type", argument.type);
  if (shows_its_name(argument)) append_pair(reply, "display_text", argument.name);
  if (is_key) {
    reply.field("key_spec_index").integer(key_index++);
  }
  if (!argument.token.empty()) append_pair(reply, "token", argument.token);
  if (flagged) {
    reply.field("flags").set((argument.optional ? 1u : 0u) + (argument.repeated ? 1u : 0u));
    if (argument.optional) reply.simple("optional");
    if (argument.repeated) reply.simple("multiple");
  }
  if (argument.arguments.empty()) return;
  reply.field("arguments").array(argument.arguments.size());
  for (const SyntaxArgument& inner : argument.arguments) append_argument(reply, inner, key_index);
}

void append_documentation(resp::Reply& reply, const CommandSpec& row) {
  const std::vector<SyntaxArgument> arguments = parse_syntax(row.syntax);
  const bool of_module = row.flags.has(Flag::module);
  reply.bulk(row.name);
  reply.map(4 + (of_module ? 1u : 0u) + (arguments.empty() ? 0u : 1u) + (row.subcommands.empty() ? 0u : 1u));
  append_pair(reply, "summary", row.summary);
  append_pair(reply, "since", row.since);
  append_pair(reply, "group", row.group);
  append_pair(reply, "complexity", row.complexity);
  if (of_module) append_pair(reply, "module", bloom_module_name);
  if (!arguments.empty()) {
    reply.field("arguments").array(arguments.size());
    std::int64_t key_index = 0;
    for (const SyntaxArgument& argument : arguments) append_argument(reply, argument, key_index);
  }
  if (row.subcommands.empty()) return;
  reply.field("subcommands").map(row.subcommands.size());
  for (const CommandSpec& subcommand : row.subcommands) append_documentation(reply, subcommand);
}

}  // namespace

Next command_docs(Context& context) {
  if (context.words.size() - 2 > described_names_max) return refuse(context, too_many_names());
  std::vector<const CommandSpec*> rows;
  if (context.words.size() == 2) {
    for (const CommandSpec& row : command_table()) rows.push_back(&row);
  }
  // Unknown names are skipped.
  for (const std::string_view name : context.words.subspan(2))
    if (const CommandSpec* const row = find_row(name)) rows.push_back(row);
  const std::size_t reply_bytes = context.reply.size();
  context.reply.map(rows.size());
  for (const CommandSpec* const row : rows) {
    append_documentation(context.reply, *row);
    if (context.reply.size() - reply_bytes <= described_bytes_max) continue;
    context.reply.truncate(reply_bytes);
    return refuse(context, text::description_too_long);
  }
  return Next::done;
}

}  // namespace sepal::command
