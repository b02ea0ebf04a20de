// The data type of the module: a filter in the server's files, in its memory and in its commands.
//
// The type's name is RedisBloom's, so its RDB files, AOF files and dumps are read as they are.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include "module/api.hpp"

namespace sepal::module {

// When the module is loaded. False: the server has refused it, and logged why.
[[nodiscard]] bool create_filter_type(RedisModuleCtx* context);

// Null before it is created.
[[nodiscard]] RedisModuleType* filter_type();

// For filters that come from files and from other servers: these have been admitted there.
inline constexpr bloom::FilterLimits no_limits{.bytes_max = std::uint64_t{1} << 48, .layers_max = 64};

}  // namespace sepal::module
