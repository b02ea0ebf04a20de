// Rows of the command table: filters. What every host says about them is in bloom/commands.hpp.
#pragma once

#include <sepal/bloom/commands/commands.hpp>

#include "command/table/handlers.hpp"

namespace sepal::command {

// `row` has the name, the handlers, and the flags that only this host knows.
[[nodiscard]] consteval CommandSpec bloom_row(CommandSpec row) {
  const bloom::CommandFacts& facts = bloom::facts_of_command(row.name);
  if (row.arity == 0) row.arity = facts.arity;
  row.flags = row.flags | Flag::module | (facts.writes ? Flag::write | Flag::deny_oom : Flag::read_only);
  if (facts.fast) row.flags = row.flags | Flag::fast;
  if (row.keys.first == 0)
    row.keys = {.first = 1, .last = 1, .step = 1, .access = facts.writes ? "RW" : "RO"};
  row.categories = facts.categories;
  row.summary = facts.summary;
  row.since = facts.since;
  row.group = "module";
  row.complexity = facts.complexity;
  row.syntax = facts.syntax;
  row.tips = facts.tips;
  return row;
}

inline constexpr CommandSpec bloom_rows[] = {
    bloom_row({.name = "bf.add", .run = bf_add, .run_together = bf_add_together}),
    bloom_row({.name = "bf.card", .run = bf_card}),
    // The reference declares neither the number of words nor what happens to the key: so it tells the worst.
    bloom_row({.name = "bf.debug",
               .arity = -1,
               .keys = {.first = 1, .last = 1, .step = 1, .access = "RW access update"},
               .run = bf_debug}),
    bloom_row({.name = "bf.exists", .run = bf_exists, .run_together = bf_exists_together}),
    bloom_row({.name = "bf.info", .run = bf_info}),
    bloom_row({.name = "bf.insert", .items_at = items_of_insert, .run = bf_insert}),
    bloom_row({.name = "bf.loadchunk", .flags = Flag::adopts | Flag::outside_multi, .run = bf_load_chunk}),
    bloom_row({.name = "bf.madd", .items_at = items_behind_key, .run = bf_madd}),
    bloom_row({.name = "bf.mexists", .items_at = items_behind_key, .run = bf_mexists}),
    {.name = "bf.mirror",
     .arity = -2,
     .flags = Flag::write | Flag::module | Flag::outside_multi,
     .keys = {.first = 1, .last = -1, .step = 1, .access = "RW access update variable_flags"},
     .categories = "@write @bloom",
     .summary =
         "Lets every item that is added to a filter be added to another as well, which is to replace it",
     .since = "0.1.0",  // Sepal's version
     .group = "module",
     .complexity = "O(1)",
     .syntax = "source [target | OFF | COMMIT [FORCE] | ABORT]",
     .key_use = key_use_of_mirror,
     .asks = asks_mirror,
     .frees = frees_by_mirror,
     .run = bf_mirror},
    bloom_row({.name = "bf.reserve", .run = bf_reserve}),
    // The reference declares that it changes the key.
    bloom_row({.name = "bf.scandump",
               .keys = {.first = 1, .last = 1, .step = 1, .access = "RW"},
               .run = bf_scan_dump}),
    bloom_row({.name = "bf.stats", .run = bf_stats}),
};

}  // namespace sepal::command
