// Finding what a key names, on behalf of a request.
#pragma once

#include <sepal/command/dispatcher.hpp>

#include <string_view>

namespace sepal::command {

// Null when the key names nothing, or is past its deadline.
[[nodiscard]] inline filter::Filter* find(const Context& context, std::string_view key) {
  return context.services.keyspace.find({.database = context.client.database, .key = key}, context.now);
}

// Counts a hit or a miss for each of `times` requests, as INFO shows them. For requests that only read.
[[nodiscard]] inline filter::Filter* find_counted(Context& context, std::string_view key,
                                                  std::uint64_t times = 1) {
  filter::Filter* const found = find(context, key);
  (found != nullptr ? context.stats.key_hits : context.stats.key_misses).add(times);
  return found;
}

}  // namespace sepal::command
