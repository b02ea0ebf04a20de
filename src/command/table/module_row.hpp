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
  const std::string_view access = facts.writes ? "RW" : "RO";
  CommandSpec row{
      .name = facts.name,
      .arity = facts.arity,
      .flags = Flag::module | (facts.writes ? Flag::write : Flag::read_only),
      .keys = facts.key_count_at != 0 ? counted_from(facts.key_count_at, access) : one_key(access),
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
  if (facts.key_count_at != 0) put(row, Flag::movable_keys);
  (put(row, parts), ...);
  return checked(row);
}

}  // namespace sepal::command
