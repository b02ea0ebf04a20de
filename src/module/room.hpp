// What the server's `maxmemory` leaves for a filter. A filter that does not fit is refused before it is
// allocated.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include "module/api.hpp"

namespace sepal::module {

// The limits for a new filter, and for a filter that grows, where that takes about so many bytes. They ask
// the server only where these are many: its answer takes as long as to create ten small filters.
[[nodiscard]] value::Limits limits_of_new(RedisModuleCtx* context, std::uint64_t bytes);
// `byte_count` is what the filter has now.
[[nodiscard]] value::Limits limits_of(RedisModuleCtx* context, std::uint64_t byte_count, std::uint64_t bytes);

// No fewer bytes than the next layer of the filter takes; 0 if it does not grow.
[[nodiscard]] std::uint64_t growth_bytes_max(const bloom::Filter& filter);
[[nodiscard]] std::uint64_t growth_bytes_max(const bloom::WindowFilter& filter);

// So that filters are in the server's memory. When the module is loaded.
void use_memory_of_server();

}  // namespace sepal::module
