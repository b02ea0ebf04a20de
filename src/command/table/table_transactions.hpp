// Rows of the command table: transactions.
#pragma once

#include "command/table/handlers.hpp"

namespace sepal::command {

inline constexpr Flags transaction_flags = Flag::no_script | Flag::loading | Flag::stale;
inline constexpr Flags fast_transaction_flags = transaction_flags | Flag::fast | Flag::allow_busy;
inline constexpr std::string_view transaction_categories = "@fast @transaction";

inline constexpr CommandSpec transaction_rows[] = {
    {.name = "discard",
     .arity = 1,
     .flags = fast_transaction_flags | Flag::unqueued,
     .categories = transaction_categories,
     .summary = "Drops the commands queued since MULTI, and ends the watch",
     .since = "2.0.0",
     .group = "transactions",
     .complexity = "O(N) where N is the number of queued commands",
     .run = discard},
    {.name = "exec",
     .arity = 1,
     .flags = transaction_flags | Flag::skip_slowlog | Flag::unqueued,
     .categories = "@slow @transaction",
     .summary = "Runs the commands queued since MULTI as one step",
     .since = "1.2.0",
     .group = "transactions",
     .complexity = "That of the queued commands together",
     .run = exec},
    {.name = "multi",
     .arity = 1,
     .flags = fast_transaction_flags | Flag::unqueued,
     .categories = transaction_categories,
     .summary = "Begins a transaction: the commands that follow are queued",
     .since = "1.2.0",
     .group = "transactions",
     .complexity = "O(1)",
     .run = multi},
    {.name = "unwatch",
     .arity = 1,
     .flags = fast_transaction_flags,
     .categories = transaction_categories,
     .summary = "Forgets the watched keys",
     .since = "2.2.0",
     .group = "transactions",
     .complexity = "O(1)",
     .run = unwatch},
    {.name = "watch",
     .arity = -2,
     .flags = fast_transaction_flags | Flag::unqueued | Flag::alone,
     .keys = {.first = 1, .last = -1, .step = 1, .access = "RO"},
     .categories = transaction_categories,
     .summary = "Watches keys: the next EXEC runs only if none of them has changed",
     .since = "2.2.0",
     .group = "transactions",
     .complexity = "O(N) where N is the number of keys",
     .syntax = "key [key ...]",
     .run = watch},
};

}  // namespace sepal::command
