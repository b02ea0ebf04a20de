// What the server tells clients about a command of the module: COMMAND DOCS, its keys, the rights of users.
#pragma once

#include <sepal/base/syntax.hpp>

#include "module/api.hpp"

namespace sepal::module {

// While the module is loaded, before its first description. Makes the categories "bloom" and "cuckoo" of
// users' rights. False: the server has refused one.
[[nodiscard]] bool create_categories(RedisModuleCtx* context);

// The server has the command. A server says of it what it can: before Redis 7.0 nothing, categories from 7.2
// on, @bloom and @cuckoo from 7.4 on. False: the server has refused the description.
[[nodiscard]] bool describe(RedisModuleCtx* context, const CommandFacts& facts);

}  // namespace sepal::module
