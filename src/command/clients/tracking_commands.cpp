// Handlers of the subcommands of CLIENT about what Sepal does not do: it tracks no keys for the caches of
// clients, and no client waits for a key.

#include <sepal/base/arguments.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <string_view>

#include "command/run/refuse.hpp"
#include "command/table/handlers.hpp"

namespace sepal::command {
namespace {

// The error text of the options of CLIENT TRACKING; empty if there is none.
std::string_view wrong_with_options(std::span<const std::string_view> words) {
  bool broadcast = false;
  bool prefix = false;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool has_value = at + 1 < words.size();
    if (equal_ignoring_case(words[at], "REDIRECT") && has_value) {
      if (!parse_integer(words[++at])) return text::not_an_integer;
    } else if (equal_ignoring_case(words[at], "PREFIX") && has_value) {
      prefix = true;
      ++at;
    } else if (equal_ignoring_case(words[at], "BCAST")) {
      broadcast = true;
    } else if (!equal_ignoring_case(words[at], "OPTIN") && !equal_ignoring_case(words[at], "OPTOUT") &&
               !equal_ignoring_case(words[at], "NOLOOP")) {
      return text::syntax;
    }
  }
  return prefix && !broadcast ? text::prefix_without_broadcast : std::string_view();
}

}  // namespace

// ON is refused, and not taken without effect: a client that keeps replies in a cache must learn that Sepal
// does not tell it about changes.
Next client_tracking(Context& context) {
  const bool on = equal_ignoring_case(context.words[2], "ON");
  const std::string_view wrong = wrong_with_options(context.words.subspan(3));
  if (!wrong.empty()) return refuse(context, wrong);
  if (on) return refuse(context, text::no_tracking);
  if (!equal_ignoring_case(context.words[2], "OFF")) return refuse(context, text::syntax);
  context.reply.ok();
  return Next::done;
}

Next client_caching(Context& context) {
  return refuse(context, text::caching_without_tracking);
}

// What the reference answers to a client without tracking.
Next client_tracking_info(Context& context) {
  constexpr std::size_t field_count = 3;
  context.reply.map(field_count);
  context.reply.bulk("flags");
  context.reply.set(1);
  context.reply.bulk("off");
  context.reply.bulk("redirect");
  context.reply.integer(-1);
  context.reply.bulk("prefixes");
  context.reply.array(0);
  return Next::done;
}

Next client_get_redirection(Context& context) {
  context.reply.integer(-1);
  return Next::done;
}

Next client_unblock(Context& context) {
  constexpr std::size_t words_max = 4;
  if (context.words.size() > words_max) return refuse_words(context);
  const bool has_reason = context.words.size() == words_max;
  if (has_reason && !equal_ignoring_case(context.words[3], "TIMEOUT") &&
      !equal_ignoring_case(context.words[3], "ERROR"))
    return refuse(context, text::bad_unblock_reason);
  if (!parse_integer(context.words[2])) return refuse(context, text::not_an_integer);
  context.reply.integer(0);
  return Next::done;
}

}  // namespace sepal::command
