// Looking up rows beyond what the dispatcher's contract offers others.
#pragma once

#include <sepal/command/command_table.hpp>

#include <span>
#include <string_view>

namespace sepal::command {

// Any row by its whole name, "client|id" as well. In any case; null when there is none.
[[nodiscard]] const CommandSpec* find_row(std::string_view name);

// The subcommand of `container` that `word` names.
[[nodiscard]] const CommandSpec* find_subcommand(const CommandSpec& container, std::string_view word);

[[nodiscard]] bool arity_fits(const CommandSpec& spec, std::size_t word_count);

// Visits every row: each command, then its subcommands.
template <class Visit>
void for_each_row(const Visit& visit) {
  for (const CommandSpec& command : command_table()) {
    visit(command);
    for (const CommandSpec& subcommand : command.subcommands) visit(subcommand);
  }
}

}  // namespace sepal::command
