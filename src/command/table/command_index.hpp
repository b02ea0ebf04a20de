// Look-ups of rows for this component's own use; command_table.hpp has the public ones.
#pragma once

#include <sepal/command/table/command_table.hpp>

#include <cstdint>
#include <string_view>

namespace sepal::command {

// Any row by its whole name in any case, subcommands included ("client|id"); null if there is none.
[[nodiscard]] const CommandSpec* find_row(std::string_view name);

// The subcommand of `container` that `word` names; null if there is none.
[[nodiscard]] const CommandSpec* find_subcommand(const CommandSpec& container, std::string_view word);

[[nodiscard]] inline bool arity_fits(const CommandSpec& spec, std::size_t word_count) {
  const auto words = static_cast<std::int64_t>(word_count);
  return spec.arity >= 0 ? words == spec.arity : words >= -spec.arity;
}

// The handler of COMMAND DOCS.
Next command_docs(Context& context);

// Visits every row: each command, then its subcommands.
template <class Visit>
void for_each_row(const Visit& visit) {
  for (const CommandSpec& command : command_table()) {
    visit(command);
    for (const CommandSpec& subcommand : command.subcommands) visit(subcommand);
  }
}

}  // namespace sepal::command
