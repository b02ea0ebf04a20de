// The ends of handlers: an error, OK or a number.
#pragma once

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::command {

inline Next refuse(Context& context, std::string_view error) {
  context.reply.error(error);
  return Next::done;
}

inline Next answer_ok(Context& context) {
  context.reply.ok();
  return Next::done;
}

inline Next answer_number(Context& context, std::int64_t number) {
  context.reply.integer(number);
  return Next::done;
}

inline Next answer_count(Context& context, std::uint64_t count) {
  context.reply.integer_unsigned(count);
  return Next::done;
}

inline void count_refused(WorkerStats& stats, RefusedAdd reason, std::uint64_t items = 1) {
  stats.adds_refused[static_cast<std::size_t>(reason)].add(items);
}

// Answers why no filter was made for so many items.
void refuse_items(Context& context, Errc code, std::uint64_t items);

// Refuses a subcommand with too many words, in the words of the reference. It repeats the subcommand as the
// client has spelled it.
inline Next refuse_words(Context& context) {
  const std::string_view container = context.spec.name.substr(0, context.spec.name.find('|'));
  return refuse(context, "ERR unknown subcommand or wrong number of arguments for '" +
                             std::string(echoed(context.words[1])) + "'. Try " + upper_case(container) +
                             " HELP.");
}

}  // namespace sepal::command
