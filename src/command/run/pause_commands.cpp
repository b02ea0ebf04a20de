// Handlers of CLIENT PAUSE and CLIENT UNPAUSE.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/keyspace/deadline.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string_view>

#include "command/run/refuse.hpp"
#include "command/table/handlers.hpp"

namespace sepal::command {
Next client_pause(Context& context) {
  constexpr std::size_t words_with_mode = 4;
  const bool with_mode = context.words.size() == words_with_mode;
  const bool of_writes = with_mode && equal_ignoring_case(context.words[3], "WRITE");
  if (with_mode && !of_writes && !equal_ignoring_case(context.words[3], "ALL"))
    return refuse(context, text::bad_pause_mode);
  const std::optional<std::int64_t> timeout = parse_integer(context.words[2]);
  if (!timeout) return refuse(context, text::timeout_not_int);
  if (*timeout < 0) return refuse(context, text::timeout_negative);
  if (*timeout > std::numeric_limits<std::int64_t>::max() - keyspace::deadline_at(context.now))
    return refuse(context, text::timeout_range);
  constexpr std::int64_t milliseconds_max = std::chrono::milliseconds(pause_max).count();
  const std::chrono::milliseconds time(std::min(*timeout, milliseconds_max));
  context.services.pause.begin(!of_writes, context.steady_now, context.steady_now + time);
  context.reply.ok();
  return Next::done;
}

Next client_unpause(Context& context) {
  context.services.pause.end();
  context.services.clients.pause_ended();
  context.reply.ok();
  return Next::done;
}

}  // namespace sepal::command
