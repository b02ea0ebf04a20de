// Finds the filter or string under a key, for a request.
#pragma once

#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <string_view>

namespace sepal::command {

// Null if nothing is under the key, or if the key is past its deadline. Such a key is still in the table,
// unless the dispatcher has removed it (with the gate closed, before a request that writes).
[[nodiscard]] inline bloom::Filter* find(const Context& context, std::string_view key) {
  return context.services.keyspace.find({.database = context.client.database, .key = key}, context.now);
}

// Answers WRONGTYPE, and returns true, if the value under a key is a string. For handlers of filters.
[[nodiscard]] inline bool refuses_string(Context& context, const bloom::Filter* value) {
  if (value == nullptr || !value->is_string()) return false;
  context.reply.error(text::wrong_type);
  return true;
}

// Also counts a hit or a miss, which INFO shows, for each of `times` requests. For requests that only read.
// The parts of a long request on one key count it once.
[[nodiscard]] inline bloom::Filter* find_counted(Context& context, std::string_view key,
                                                 std::uint64_t times = 1) {
  bloom::Filter* const found = find(context, key);
  if (!context.counts_keys) return found;
  (found != nullptr ? context.stats.key_hits : context.stats.key_misses).add(times);
  return found;
}

}  // namespace sepal::command
