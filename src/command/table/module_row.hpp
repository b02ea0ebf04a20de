// Rows of commands that every host has. What all hosts say about them is in the facts.
#pragma once

#include <sepal/base/syntax.hpp>

#include "command/table/command_row.hpp"
#include "command/table/row_category.hpp"

namespace sepal::command {

// Behind the handler come the parts that only this host has.
template <class... Parts>
[[nodiscard]] consteval CommandSpec module_row(const CommandFacts& facts, Handler run,
                                               const Parts&... parts) {
  CommandSpec row{.name = facts.name,
                  .arity = facts.arity,
                  .flags = Flag::module | (facts.writes ? Flag::write : Flag::read_only),
                  .keys = one_key(facts.writes ? "RW" : "RO"),
                  .categories = categories_of(facts.categories),
                  .summary = facts.summary,
                  .since = facts.since,
                  .group = "module",
                  .complexity = facts.complexity,
                  .syntax = facts.syntax,
                  .tips = facts.tips,
                  .run = run};
  if (facts.writes && facts.grows) put(row, Flag::deny_oom);
  if (facts.fast) put(row, Flag::fast);
  (put(row, parts), ...);
  return checked(row);
}

}  // namespace sepal::command
