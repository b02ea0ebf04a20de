// Handlers of SLOWLOG, and the part of the dispatcher that notes what was slow.

#include <sepal/base/arguments.hpp>
#include <sepal/command/observe/latency_events.hpp>
#include <sepal/command/observe/slow_log.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <chrono>
#include <optional>

#include "command/run/refuse.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t entries_by_default = 10;

}  // namespace

// Not const: it changes what the services remember.
// NOLINTNEXTLINE(readability-make-member-function-const)
void Dispatcher::note_slow(const SlowRun& run) {
  const RuntimeOptions& options = services_.options;
  if (is_latency_event(run.duration)) {
    const bool is_fast = run.spec.flags.has(Flag::fast);
    services_.latency_events->add(is_fast ? "fast-command" : "command", run.now,
                                  std::chrono::duration_cast<milliseconds>(run.duration));
  }
  // The flag keeps EXEC out of the slow log: its commands are measured and noted by themselves. The flag does
  // not count for events of LATENCY.
  if (run.spec.flags.has(Flag::skip_slowlog) || !is_for_slow_log(run.duration)) return;
  services_.slow_log->add({.at = run.now,
                           .duration = std::chrono::duration_cast<microseconds>(run.duration),
                           .words = slow_words(run.words, run.times),
                           .address = run.client.address,
                           .client_name = run.client.shown_names().client},
                          options.slow_log_entries);
}

Next slow_log_get(Context& context) {
  std::uint64_t count = entries_by_default;
  constexpr std::size_t words_max = 3;
  if (context.words.size() > words_max) return refuse(context, wrong_arity(context.spec.name));
  if (context.words.size() == words_max) {
    const std::optional<std::int64_t> given = parse_integer(context.words[2]);
    if (!given || *given < -1) return refuse(context, text::slow_log_count);
    // -1 asks for all: as an unsigned number it is more than there can be.
    count = static_cast<std::uint64_t>(*given);
  }
  const std::vector<SlowEntry> entries = context.services.slow_log->newest(count);
  resp::Reply& reply = context.reply;
  reply.array(entries.size());
  for (const SlowEntry& entry : entries) {
    constexpr std::size_t field_count = 6;
    const auto since_1970 = entry.at.time_since_epoch();
    reply.array(field_count);
    reply.integer_unsigned(entry.id);
    reply.integer(std::chrono::duration_cast<std::chrono::seconds>(since_1970).count());
    reply.integer(entry.duration.count());
    reply.array(entry.words.size());
    for (const std::string& word : entry.words) reply.bulk(word);
    reply.bulk(entry.address);
    reply.bulk(entry.client_name);
  }
  return Next::done;
}

Next slow_log_length(Context& context) {
  return answer_count(context, context.services.slow_log->size());
}

Next slow_log_reset(Context& context) {
  context.services.slow_log->reset();
  return answer_ok(context);
}

namespace {

constexpr Family slow_log_row{.group = "server", .flags = Flag::admin | Flag::loading | Flag::stale};

constexpr CommandSpec slowlog_subcommands[] = {
    slow_log_row("slowlog|get [count]", -2, "2.2.12", "Answers the newest requests of the slow log",
                 slow_log_get, Cost{"O(N) where N is the number of entries answered"},
                 Tips{"request_policy:all_nodes nondeterministic_output"}),
    slow_log_row.help("slowlog|help", "6.2.0"),
    slow_log_row("slowlog|len", 2, "2.2.12", "Answers the number of entries of the slow log", slow_log_length,
                 Tips{"request_policy:all_nodes response_policy:agg_sum nondeterministic_output"}),
    slow_log_row("slowlog|reset", 2, "2.2.12", "Empties the slow log", slow_log_reset,
                 Cost{"O(N) where N is the number of entries"}, on_all_nodes),
};

constexpr CommandSpec slow_log_family[] = {
    slow_log_row.container("slowlog", "2.2.12", "Commands about the slow log", slowlog_subcommands),
};

}  // namespace

constinit const Rows slow_log_rows = slow_log_family;

}  // namespace sepal::command
