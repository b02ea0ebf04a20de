// What the server's `maxmemory` leaves for a filter. A filter that does not fit is refused before it is
// allocated.
#pragma once

#include <sepal/filter/filter.hpp>

#include "api.hpp"

namespace sepal::module {

// Asks the server, which takes some microseconds: only where a filter is created, or may grow.
[[nodiscard]] filter::FilterLimits limits_of_new(RedisModuleCtx* context);
[[nodiscard]] filter::FilterLimits limits_of(RedisModuleCtx* context, const filter::Filter& filter);

// So that filters are in the server's memory. When the module is loaded.
void use_memory_of_server();

}  // namespace sepal::module
