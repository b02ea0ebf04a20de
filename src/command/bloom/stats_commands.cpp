// BF.STATS: how full a filter is, and how right.

#include <sepal/bloom/commands/filter_facts.hpp>
#include <sepal/bloom/commands/stats.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <chrono>
#include <optional>

#include "command/bloom/bloom_row.hpp"
#include "command/keys/lookup.hpp"
#include "command/keys/mirror_state.hpp"
#include "command/run/refuse.hpp"
#include "command/table/families.hpp"

namespace sepal::command {
namespace {

std::uint64_t stats_seconds_of(WallTime time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count());
}

std::optional<bloom::StatsOfHost::Mirror> mirror_of(const Context& context, const bloom::Filter& filter) {
  const keyspace::Mirrors::Link* const link = context.services.keyspace.mirrors().from(filter);
  if (link == nullptr) return std::nullopt;
  return bloom::StatsOfHost::Mirror{.target = link->mirror.target,
                                    .items = items_mirrored(*link),
                                    .whole = link->mirror.state == keyspace::MirrorState::whole};
}

// `ago`: a moment of the steady clock, with which Usage counts. Clients get a time of the wall clock,
// reckoned back from now.
std::uint64_t seconds_of_moment(const Context& context, SteadyTime ago) {
  return stats_seconds_of(context.now -
                          std::chrono::duration_cast<WallTime::duration>(context.steady_now - ago));
}

Next bf_stats(Context& context) {
  value::Value* const found = find_counted(context, context.words[1]);
  if (const auto* const window = value::as<bloom::WindowFilter>(found)) {
    bloom::append_stats(context.reply, bloom::stats_of(*window, context.now));
    return Next::done;
  }
  const auto [filter, refused] = found_or_refused<bloom::Filter>(context, found);
  if (refused) return Next::done;
  if (filter == nullptr) return refuse(context, text::filter_not_found);
  const bloom::FilterFacts facts = bloom::facts_of(*filter, context.steady_now);
  const SaveStatus save = context.services.persistence.status();
  bloom::StatsOfHost host{.mirror = mirror_of(context, *filter)};
  if (facts.usage && facts.usage->last_added)
    host.last_change = seconds_of_moment(context, *facts.usage->last_added);
  // Before the first save, last_success is the start of the process.
  if (save.saves_done > 0) host.last_save = stats_seconds_of(save.last_success);
  bloom::append_stats(context.reply, bloom::stats_of(facts, host));
  return Next::done;
}

constexpr CommandSpec stats_family[] = {
    bloom_row("bf.stats", bf_stats),
};

}  // namespace

constinit const Rows stats_rows = stats_family;

}  // namespace sepal::command
