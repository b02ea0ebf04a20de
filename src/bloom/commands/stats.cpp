#include <sepal/bloom/commands/stats.hpp>
#include <sepal/bloom/filter/measure.hpp>

#include <utility>

namespace sepal::bloom {
namespace {

std::string layout_word(bloom::Layout layout) {
  switch (layout) {
    case bloom::Layout::blocked: return "blocked";
    case bloom::Layout::double_hashing: return "double_hashing";
    case bloom::Layout::client: break;
  }
  return "client";
}

StatsMap stats_of_layer(const bloom::LayerView& layer, const bloom::LayerMeasure& measured) {
  const bloom::LayerPlan plan = layer.plan();
  const bool blocked = plan.layout == bloom::Layout::blocked;
  const bool of_client = plan.layout == bloom::Layout::client;
  // A client's bitmap may end within a word. The bits behind its end are none of the client's.
  const std::uint64_t bits = of_client ? plan.client_bits().bit_count : plan.bit_count();
  return {{"layout", layout_word(plan.layout)},
          {"capacity", plan.capacity},
          {"items", layer.item_count()},
          {"bits", bits},
          {"bits_set", measured.bits_set},
          {"fill", measured.fill},
          {"items_estimated", measured.item_estimate},
          {"false_positive_rate_now", measured.false_positive_rate},
          {"false_positive_rate_planned", plan.error_rate},
          {"block_bits", blocked ? plan.block_bits : bits},
          {"probes", std::uint64_t{plan.probe_count}}};
}

template <class T>
StatsValue known(const std::optional<T>& value) {
  return value ? StatsValue(*value) : StatsValue();
}

StatsValue mirror_value(const std::optional<StatsOfHost::Mirror>& mirror) {
  if (!mirror) return {};
  return StatsMap{{"target", mirror->target},
                  {"items_mirrored", mirror->items},
                  {"state", std::string(mirror->whole ? "whole" : "broken")}};
}

}  // namespace

StatsMap stats_of(const FilterFacts& facts, const StatsOfHost& host) {
  const bloom::FilterMeasure measured = bloom::measure(facts.layers, bloom::measured_bytes_max);
  // Counts of what clients did. Only big filters have them, and only in sepald.
  const auto& usage = facts.usage;
  std::vector<StatsMap> layers;
  for (std::size_t index = 0; index < facts.layers.size(); ++index)
    layers.push_back(stats_of_layer(facts.layers[index], measured.layers[index]));
  return {{"capacity", facts.capacity},
          {"items", facts.item_count},
          {"items_estimated", measured.item_estimate},
          {"bits", measured.bits},
          {"bits_set", measured.bits_set},
          {"fill", measured.fill},
          {"bits_counted", std::string(measured.whole ? "all" : "sample")},
          {"false_positive_rate_now", measured.false_positive_rate},
          {"false_positive_rate_asked", facts.options.error_rate},
          {"expansion", std::uint64_t{facts.options.expansion}},
          {"memory_bytes", facts.byte_count},
          {"disk_bytes", facts.saved_bytes},
          {"lookups", usage ? StatsValue(usage->asked) : StatsValue()},
          {"hits", usage ? StatsValue(usage->found) : StatsValue()},
          {"adds", usage ? StatsValue(usage->added) : StatsValue()},
          {"adds_per_second", usage ? StatsValue(usage->added_per_second) : StatsValue()},
          {"seconds_until_full", known(facts.seconds_until_full())},
          {"last_change", known(host.last_change)},
          {"last_save", known(host.last_save)},
          {"mirror", mirror_value(host.mirror)},
          {"layers", std::move(layers)}};
}

namespace {

constexpr double milliseconds_a_second = 1000;

StatsValue seconds_of(const std::optional<std::uint64_t>& milliseconds) {
  if (!milliseconds) return {};
  return static_cast<double>(*milliseconds) / milliseconds_a_second;
}

StatsMap stats_of_layer(const WindowFilter::LayerFigures& layer, std::uint32_t lanes) {
  return {{"generation_capacity", layer.plan.capacity},
          {"items", layer.items},
          {"false_positive_rate_now", layer.rate},
          {"false_positive_rate_planned", layer.plan.error_rate * lanes},
          {"zones", std::uint64_t{layer.plan.zones}},
          {"probes", std::uint64_t{layer.plan.zones} * layer.plan.probes},
          {"memory_bytes", layer.plan.byte_count(lanes)}};
}

}  // namespace

StatsMap stats_of(const WindowFilter& filter, WallTime now) {
  const WindowOptions& options = filter.options();
  const WindowFilter::State state = filter.state(now);
  std::vector<StatsMap> generations;
  for (const auto& generation : state.generations)
    generations.push_back({{"number", generation.number},
                           {"begin", seconds_of(generation.begin)},
                           {"items", generation.items}});
  std::vector<StatsMap> layers;
  for (const auto& layer : state.layers) layers.push_back(stats_of_layer(layer, options.lanes()));
  const auto plan = plan_window(options, std::uint64_t{1} << 62);
  const bool of_last = options.of_last();
  return {{"window_seconds", of_last ? StatsValue() : seconds_of(options.milliseconds)},
          {"window_items", of_last ? StatsValue(options.capacity) : StatsValue()},
          {"generations", std::uint64_t{options.generations}},
          {"refresh", options.refresh},
          {"capacity", options.capacity},
          {"items", filter.item_count(now)},
          {"kept_since", seconds_of(state.kept_since)},
          {"forgets_next_at", seconds_of(state.forgets_next)},
          {"forgets_next_items", state.generations.back().items},
          {"false_positive_rate_now", state.error_rate},
          {"false_positive_rate_asked", options.error_rate},
          {"expansion", std::uint64_t{options.expansion}},
          {"memory_bytes", filter.byte_count()},
          {"planned_bytes", plan ? StatsValue(plan->byte_count(options.lanes())) : StatsValue()},
          {"by_generation", std::move(generations)},
          {"layers", std::move(layers)}};
}

}  // namespace sepal::bloom
