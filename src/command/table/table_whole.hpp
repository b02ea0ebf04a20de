// Rows of the command table: commands that copy, export or import a whole filter.
#pragma once

#include "command/table/handlers.hpp"

namespace sepal::command {

inline constexpr CommandSpec whole_rows[] = {
    {.name = "bf.export",
     .arity = -3,
     .flags = Flag::read_only | Flag::module | Flag::outside_multi | Flag::no_script | Flag::administers,
     .keys = {.first = 1, .last = 1, .step = 1, .access = "RO"},
     .categories = "@read @slow @bloom",
     .summary = "Writes a filter into a file of import_dir; Sepal's own",
     .since = "0.1.0",  // Sepal's version
     .group = "module",
     .complexity = "O(N) where N is the size of the filter",
     .syntax = "key file [REPLACE]",
     .run = bf_export},
    {.name = "bf.import",
     .arity = -3,
     .flags = Flag::write | Flag::deny_oom | Flag::module | Flag::adopts | Flag::outside_multi |
              Flag::no_script | Flag::administers,
     .keys = {.first = 1, .last = 1, .step = 1, .access = "RW"},
     .categories = "@write @slow @bloom",
     .summary = "Puts the filter in a file of import_dir under a key, in one instant; Sepal's own",
     .since = "0.1.0",  // Sepal's version
     .group = "module",
     .complexity = "O(N) where N is the size of the file",
     .syntax = "key file [REPLACE]",
     .run = bf_import},
    {.name = "bf.importbitmap",
     .arity = -7,
     .flags = Flag::write | Flag::deny_oom | Flag::module | Flag::adopts,
     .keys = {.first = 1, .last = 2, .step = 1, .access = "OW update/RO access"},
     .categories = "@write @slow @bloom",
     .summary = "Makes a filter of the bitmap in which a client program kept its own; Sepal's own",
     .since = "0.1.0",  // Sepal's version
     .group = "module",
     .complexity = "O(N) where N is the size of the bitmap",
     .syntax = "key bitmap SCHEME scheme CAPACITY capacity [BITS bits] [HASHES hashes] [SEED seed] "
               "[ERROR error] [EXPANSION expansion] [REPLACE]",
     .run = bf_import_bitmap},
    {.name = "copy",
     .arity = -3,
     .flags = Flag::write | Flag::deny_oom | Flag::adopts,
     .keys = {.first = 1, .last = 2, .step = 1, .access = "RO access/OW update"},
     .categories = "@keyspace @write @slow",
     .summary = "Copies a filter or a string, and its deadline, to another key",
     .since = "6.2.0",
     .group = "generic",
     .complexity = "O(N) where N is the size of the filter",
     .syntax = "source destination [DB destination-db] [REPLACE]",
     .run = copy},
    {.name = "dump",
     .arity = 2,
     .flags = Flag::read_only,
     .keys = {.first = 1, .last = 1, .step = 1, .access = "RO access"},
     .categories = "@keyspace @read @slow",
     .summary = "Answers a filter or a string as bytes that RESTORE takes",
     .since = "2.6.0",
     .group = "generic",
     .complexity = "O(N) where N is the size of the filter",
     .syntax = "key",
     .tips = "nondeterministic_output",
     .run = dump},
    {.name = "restore",
     .arity = -4,
     .flags = Flag::write | Flag::deny_oom | Flag::adopts,
     .keys = {.first = 1, .last = 1, .step = 1, .access = "OW update"},
     .categories = "@keyspace @write @slow @dangerous",
     .summary = "Puts a filter or a string that DUMP, here or in Redis, answered under a key",
     .since = "2.6.0",
     .group = "generic",
     .complexity = "O(N) where N is the size of the payload",
     .syntax = "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
     .run = restore},
};

}  // namespace sepal::command
