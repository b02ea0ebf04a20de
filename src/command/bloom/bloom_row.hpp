// Rows of the BF commands that every host has. What all hosts say about them is in bloom/commands.hpp.
#pragma once

#include <sepal/bloom/commands/commands.hpp>

#include "command/table/command_row.hpp"
#include "command/table/row_category.hpp"

namespace sepal::command {

// Behind the handler come the parts that only this host has.
template <class... Parts>
[[nodiscard]] consteval CommandSpec bloom_row(std::string_view name, Handler run, const Parts&... parts) {
  const bloom::CommandFacts& facts = bloom::facts_of_command(name);
  CommandSpec row{.name = name,
                  .arity = facts.arity,
                  .flags = Flag::module | (facts.writes ? Flag::write | Flag::deny_oom : Flag::read_only),
                  .keys = one_key(facts.writes ? "RW" : "RO"),
                  .categories = categories_of(facts.categories),
                  .summary = facts.summary,
                  .since = facts.since,
                  .group = "module",
                  .complexity = facts.complexity,
                  .syntax = facts.syntax,
                  .tips = facts.tips,
                  .run = run};
  if (facts.fast) put(row, Flag::fast);
  (put(row, parts), ...);
  return checked(row);
}

}  // namespace sepal::command
