// Handlers of LATENCY.

#include <sepal/base/arguments.hpp>
#include <sepal/command/observe/latency_events.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/metrics/counters.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command/observe/latency_graph.hpp"
#include "command/run/refuse.hpp"
#include "command/run/worker_sums.hpp"
#include "command/table/command_index.hpp"
#include "command/table/command_row.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

using metrics::Histogram;

// The histogram of a row over all workers, as pairs of microseconds and of the calls that took at most so
// long. Each bound is twice the one before it; a bound that adds no calls is left out.
struct CallTimes {
  std::uint64_t calls = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> counts;
};

// The reference's bounds: it rounds 1024 nanoseconds, and twice, four times ... as much up to the precision
// of its histogram, before it divides.
constexpr std::uint64_t shown_bound(std::size_t doublings) {
  return ((std::uint64_t{1032} << doublings) - 1) / 1000;
}
constexpr std::uint64_t first_bound_nanoseconds = 1024;

// Each bound is a power of two in nanoseconds. A bucket of the histogram ends there, so no bucket is split
// between two bounds. The loop ends, because the buckets add up to `times.calls`.
CallTimes call_times(const Context& context, const CommandSpec& row) {
  const CallCounts counts = call_counts(context.services, row);
  CallTimes times{.calls = counts.total, .counts = {}};
  std::uint64_t seen = 0;
  std::size_t bucket = 0;
  for (std::size_t doublings = 0; seen < times.calls; ++doublings) {
    const std::uint64_t before = seen;
    while (bucket < counts.buckets.size() &&
           Histogram::upper_bound(bucket) < (first_bound_nanoseconds << doublings))
      seen += counts.buckets[bucket++];
    if (seen > before) times.counts.emplace_back(shown_bound(doublings), seen);
  }
  return times;
}

void append_call_times(resp::Reply& reply, const CommandSpec& row, const CallTimes& times) {
  reply.bulk(row.name);
  reply.map(2);
  reply.field("calls").integer_unsigned(times.calls);
  reply.field("histogram_usec").map(times.counts.size());
  for (const auto& [microseconds, calls] : times.counts) {
    reply.integer_unsigned(microseconds);
    reply.integer_unsigned(calls);
  }
}

Next latency_histogram(Context& context) {
  // The map begins with the number of its rows. Rows without calls are left out, so all rows are collected
  // first.
  std::vector<std::pair<const CommandSpec*, CallTimes>> shown;
  const auto show = [&](const CommandSpec& row) {
    CallTimes times = call_times(context, row);
    if (times.calls > 0) shown.emplace_back(&row, std::move(times));
  };
  const auto names = context.words.subspan(2);
  if (names.size() > described_names_max) return refuse(context, too_many_names());
  if (names.empty()) for_each_row(show);
  for (const std::string_view name : names) {
    const CommandSpec* const row = find_row(name);
    if (row == nullptr) continue;
    show(*row);
    for (const CommandSpec& subcommand : row->subcommands) show(subcommand);
  }
  context.reply.map(shown.size());
  for (const auto& [row, times] : shown) append_call_times(context.reply, *row, times);
  return Next::done;
}

Next latency_latest(Context& context) {
  const std::vector<LatencyEvents::Summary> events = context.services.latency_events->all();
  context.reply.array(events.size());
  for (const LatencyEvents::Summary& event : events) {
    context.reply.array(4);
    context.reply.bulk(event.event);
    context.reply.integer(event.latest.at.count());
    context.reply.integer(event.latest.duration.count());
    context.reply.integer(event.longest.count());
  }
  return Next::done;
}

Next latency_history(Context& context) {
  const std::vector<LatencyEvents::Sample> samples =
      context.services.latency_events->samples(context.words[2]);
  context.reply.array(samples.size());
  for (const LatencyEvents::Sample& sample : samples) {
    context.reply.array(2);
    context.reply.integer(sample.at.count());
    context.reply.integer(sample.duration.count());
  }
  return Next::done;
}

Next latency_reset(Context& context) {
  return answer_count(context, context.services.latency_events->reset(context.words.subspan(2)));
}

Next latency_graph(Context& context) {
  const std::string_view name = context.words[2];
  const std::vector<LatencyEvents::Summary> events = context.services.latency_events->all();
  const auto found = std::ranges::find(events, name, &LatencyEvents::Summary::event);
  if (found == events.end())
    return refuse(context, "ERR No samples available for event '" + std::string(echoed(name)) + "'");
  context.reply.verbatim(latency_graph_of(*found, context.now));
  return Next::done;
}

Next latency_doctor(Context& context) {
  const std::uint64_t threshold = context.services.options.latency_event_milliseconds;
  const std::vector<LatencyEvents::Summary> events = context.services.latency_events->all();
  std::string text;
  if (threshold == 0) {
    text +=
        "The server does not record what takes long: latency-monitor-threshold is 0. For example, \"CONFIG "
        "SET latency-monitor-threshold 10\" makes it record what takes 10 milliseconds or more.\n";
  } else if (events.empty()) {
    text += "Nothing has taken " + std::to_string(threshold) +
            " milliseconds (latency-monitor-threshold) or more.\n";
  }
  // Also with a threshold of 0: the events of an earlier threshold are still there.
  for (const LatencyEvents::Summary& event : events) {
    text += event.event + ": " + std::to_string(event.samples.size()) + " samples, the latest " +
            std::to_string(event.latest.duration.count()) + " ms, the longest " +
            std::to_string(event.longest.count()) + " ms.\n";
  }
  if (!events.empty())
    text +=
        "The events command and fast-command are requests. SLOWLOG GET names the slow ones, and LATENCY "
        "HISTOGRAM says how long each command takes. docs/operations/watch.md says what to do about slow "
        "requests.\n";
  context.reply.verbatim(text);
  return Next::done;
}

constexpr Family latency_row{.group = "server",
                             .flags = Flag::admin | Flag::no_script | Flag::loading | Flag::stale};

constexpr CommandSpec latency_subcommands[] = {
    latency_row("latency|doctor", 2, "2.8.13", "Says in words what has taken long", latency_doctor,
                each_node_alone),
    latency_row("latency|graph event", 3, "2.8.13", "Draws the samples of an event", latency_graph,
                each_node_alone),
    latency_row.help("latency|help", "2.8.13"),
    latency_row("latency|histogram [command [command ...]]", -2, "7.0.0",
                "Answers how many calls of each command took how long", latency_histogram,
                Cost{"O(N) where N is the number of commands"}, each_node_alone),
    latency_row("latency|history event", 3, "2.8.13", "Answers the samples of an event", latency_history,
                each_node_alone),
    latency_row("latency|latest", 2, "2.8.13", "Answers the latest sample of each event", latency_latest,
                each_node_alone),
    latency_row("latency|reset [event [event ...]]", -2, "2.8.13", "Forgets the samples of events",
                latency_reset, Tips{"request_policy:all_nodes response_policy:agg_sum"}),
};

constexpr CommandSpec latency_family[] = {
    latency_row.container("latency", "2.8.13", "Commands about what takes long", latency_subcommands),
};

}  // namespace

constinit const Rows latency_rows = latency_family;

}  // namespace sepal::command
