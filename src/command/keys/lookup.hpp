// Finds the value under a key, for a request.
#pragma once

#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <string_view>

namespace sepal::command {

// Null if nothing is under the key, or if the key is past its deadline. Such a key is still in the table,
// unless the dispatcher has removed it (with the gate closed, before a request that writes).
[[nodiscard]] inline value::Value* find(const Context& context, std::string_view key) {
  return context.services.keyspace.find({.database = context.client.database, .key = key}, context.now);
}

// Counts a hit or a miss, which INFO shows, for each of `times` requests. For requests that only read. The
// parts of a long request on one key count it once.
inline void count_key(Context& context, bool found, std::uint64_t times = 1) {
  if (context.counts_keys) (found ? context.stats.key_hits : context.stats.key_misses).add(times);
}

// As find(), and count_key().
[[nodiscard]] inline value::Value* find_counted(Context& context, std::string_view key,
                                                std::uint64_t times = 1) {
  value::Value* const found = find(context, key);
  count_key(context, found != nullptr, times);
  return found;
}

inline void answer_other_kind(resp::Reply& reply) {
  reply.error(text::wrong_type);
}

// Answers WRONGTYPE, and returns true, if a value is of another kind.
[[nodiscard]] inline bool refuses_other(Context& context, const value::Value* value, value::Kind kind) {
  if (value == nullptr || value->kind() == kind) return false;
  // A filter with a window is one to its users.
  const bool is_window = kind == value::Kind::bloom && value->kind() == value::Kind::window;
  context.reply.error(is_window ? text::wrong_type_of_window : text::wrong_type);
  return true;
}

// What a handler of one kind finds. A value of another kind is refused: WRONGTYPE is answered, and the
// handler is done.
template <class Class>
struct Found {
  Class* value = nullptr;  // null: the key names nothing, or is refused
  bool refused = false;
};
template <class Class>
[[nodiscard]] Found<Class> found_or_refused(Context& context, value::Value* value) {
  if (refuses_other(context, value, Class::own_kind)) return {.refused = true};
  return {.value = static_cast<Class*>(value)};
}
template <class Class>
[[nodiscard]] Found<Class> find_or_refuse(Context& context, std::string_view key) {
  return found_or_refused<Class>(context, find(context, key));
}
template <class Class>
[[nodiscard]] Found<Class> find_counted_or_refuse(Context& context, std::string_view key) {
  return found_or_refused<Class>(context, find_counted(context, key));
}

}  // namespace sepal::command
