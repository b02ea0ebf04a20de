// The BF commands that every host has: what COMMAND, COMMAND DOCS and the rights of users say about them.
// Metadata as RedisBloom declares it.
#pragma once

#include <sepal/base/syntax.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace sepal::bloom {

// Sorted by name.
inline constexpr CommandFacts command_facts[] = {
    {.name = "bf.add",
     .arity = 3,
     .writes = true,
     .categories = "@write @bloom",
     .summary = "Adds an item to a filter, creating the filter with the defaults if the key is free",
     .since = "1.0.0",
     .complexity = "O(1) for a filter of one layer; each further layer is asked first",
     .syntax = "key item"},
    {.name = "bf.card",
     .arity = 2,
     .fast = true,
     .categories = "@read @fast @bloom",
     .summary = "Answers how many items were added to a filter: adds that answered 1",
     .since = "2.4.4",
     .complexity = "O(1)",
     .syntax = "key"},
    {.name = "bf.check",
     .arity = -3,
     .fast = true,
     .categories = "@read @bloom",
     .summary = "Asks as BF.MEXISTS does, and answers an error if the key names no filter",
     .since = "1.0.0",  // Sepal's version
     .complexity = "O(N * L) where N is the number of items and L the number of layers",
     .syntax = "key item [item ...]"},
    {.name = "bf.debug",
     .arity = 2,
     .fast = true,
     .categories = "@read @bloom",
     .summary = "Answers a filter's number of items, and the shape of each layer, in one line each",
     .since = "1.0.0",
     .complexity = "O(L) where L is the number of layers",
     .syntax = "key"},
    {.name = "bf.exists",
     .arity = 3,
     .fast = true,
     .categories = "@read @bloom",
     .summary = "Asks whether an item may have been added to a filter",
     .since = "1.0.0",
     .complexity = "O(L) where L is the number of layers",
     .syntax = "key item"},
    {.name = "bf.find",
     .arity = -5,
     .key_count_at = 1,
     .categories = "@read @bloom",
     .summary = "Asks for each item for the first of several filters that may have it, or which of them may",
     .since = "1.0.0",  // Sepal's version
     .complexity = "O(N * K * L) where N is the number of items, K of keys, and L of layers",
     .syntax = "numkeys key [key ...] [ALL] ITEMS item [item ...]"},
    {.name = "bf.info",
     .arity = -2,
     .fast = true,
     .categories = "@read @fast @bloom",
     .summary = "Answers a filter's capacity, size, layers, items and expansion",
     .since = "1.0.0",
     .complexity = "O(1)",
     .syntax = "key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]",
     .tips = "dont_cache"},
    {.name = "bf.insert",
     .arity = -4,
     .writes = true,
     .categories = "@write @bloom",
     .summary = "Adds items to a filter, creating it with the given options, and with EX a deadline, if the "
                "key is free",
     .since = "1.0.0",
     .complexity = "O(N * L) where N is the number of items and L the number of layers",
     .syntax =
         "key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING] "
         "[EX seconds] [WINDOW seconds | LAST] [GENERATIONS generations] [REFRESH] ITEMS item [item ...]"},
    {.name = "bf.loadchunk",
     .arity = 4,
     .writes = true,
     .categories = "@write @bloom",
     .summary = "Takes a piece of a dump that BF.SCANDUMP, here or in RedisBloom, made",
     .since = "1.0.0",
     .complexity = "O(N) where N is the size of the piece",
     .syntax = "key iterator data"},
    {.name = "bf.madd",
     .arity = -3,
     .writes = true,
     .categories = "@write @bloom",
     .summary = "Adds items to a filter, creating the filter with the defaults if the key is free",
     .since = "1.0.0",
     .complexity = "O(N * L) where N is the number of items and L the number of layers",
     .syntax = "key item [item ...]"},
    {.name = "bf.mexists",
     .arity = -3,
     .fast = true,
     .categories = "@read @bloom",
     .summary = "Asks for each of several items whether it may have been added to a filter",
     .since = "1.0.0",
     .complexity = "O(N * L) where N is the number of items and L the number of layers",
     .syntax = "key item [item ...]"},
    {.name = "bf.reserve",
     .arity = -4,
     .writes = true,
     .categories = "@write @fast @bloom",
     .summary =
         "Creates an empty filter for an error rate and a capacity; EX lets it expire, WINDOW and LAST "
         "let it forget",
     .since = "1.0.0",
     .complexity = "O(1)",
     .syntax = "key error_rate capacity [EXPANSION expansion] [NONSCALING] [EX seconds] "
               "[WINDOW seconds | LAST] [GENERATIONS generations] [REFRESH]"},
    {.name = "bf.scandump",
     .arity = 3,
     .fast = true,
     .categories = "@read @bloom",
     .summary = "Answers a piece of a filter, and the iterator of the next one; 0 begins, and ends",
     .since = "1.0.0",
     .complexity = "O(1): a piece is of a limited size",
     .syntax = "key iterator",
     .tips = "dont_cache"},
    {.name = "bf.stats",
     .arity = 2,
     .categories = "@read @bloom",
     .summary = "Answers how full a filter is, how often it errs now, and what clients do with it",
     .since = "1.0.0",  // Sepal's version
     .complexity = "O(N) where N is the size of the filter, at most 4 MiB",
     .syntax = "key",
     .tips = "dont_cache"},
    {.name = "bf.window",
     .arity = 2,
     .fast = true,
     .categories = "@read @fast @bloom",
     .summary = "Answers what a filter with a window keeps, how much of it, and what it forgets next",
     .since = "1.0.0",  // Sepal's version
     .complexity = "O(G) where G is the number of generations",
     .syntax = "key",
     .tips = "dont_cache"},
};

// For tables that are made at compile time: a name that is not in the table does not compile there.
[[nodiscard]] constexpr const CommandFacts& facts_of_command(std::string_view name) {
  const CommandFacts* const found = std::ranges::find(command_facts, name, &CommandFacts::name);
  return found != std::end(command_facts) ? *found : throw "no BF command has this name";
}

}  // namespace sepal::bloom
