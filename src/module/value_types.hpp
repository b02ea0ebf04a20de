// The data types of the module: values in the server's files, in its memory and in its commands. There is one
// for each kind whose row has a ModuleType.
//
// The types' names are RedisBloom's, so its RDB files, AOF files and dumps are read as they are. Filters that
// forget have a type of their own.
#pragma once

#include <sepal/value/value.hpp>

#include "module/api.hpp"

namespace sepal::module {

// When the module is loaded. False: the server has refused a type, and logged why.
[[nodiscard]] bool create_value_types(RedisModuleCtx* context);

// The value of an open key; null where it is of no type of this module. Any thread that may read the key.
[[nodiscard]] value::Value* value_in(RedisModuleKey* key);
// The key is open to be written, and the value's kind has a type. The server owns the reference from here on.
void put_value(RedisModuleKey* key, value::ValuePtr value);

// For values that come from files and from other servers: these have been admitted there.
inline constexpr value::Limits no_limits{.bytes_max = std::uint64_t{1} << 48, .layers_max = 64};

}  // namespace sepal::module
