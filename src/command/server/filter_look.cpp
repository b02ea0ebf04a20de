#include <sepal/base/assert.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/command/server/filter_look.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/foreign/redis_measure.hpp>
#include <sepal/metrics/exposition.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/writers/redis_cuckoo_writer.hpp>

#include <algorithm>
#include <utility>

namespace sepal::command {
namespace {

using value::Kind;

// They are read inside the gate, in some microseconds.
constexpr std::uint64_t sampled_slots_max = std::uint64_t{64} << 10;

// --- Bloom filters ----------------------------------------------------------------------------------------

FilterDetail measured(const bloom::FilterFacts& facts, FilterDetail detail, std::uint64_t bytes_max) {
  const bloom::FilterMeasure measure = bloom::measure(facts.layers, bytes_max);
  detail.seen.fill = measure.fill;
  detail.seen.false_positive_rate = measure.false_positive_rate;
  detail.seen.item_estimate = measure.item_estimate;
  std::vector<SeenBloomLayer> layers;
  for (std::size_t i = 0; i < facts.layers.size(); ++i)
    layers.push_back({.plan = facts.layers[i].plan(),
                      .items = facts.layers[i].item_count(),
                      .measured = measure.layers[i]});
  detail.layers = std::move(layers);
  return detail;
}

GrowthLimit limit_of(bloom::Filter::Refusal refusal) {
  switch (refusal) {
    case bloom::Filter::Refusal::none: return GrowthLimit::none;
    case bloom::Filter::Refusal::full: return GrowthLimit::expansion;
    case bloom::Filter::Refusal::layer_limit: return GrowthLimit::layers;
    case bloom::Filter::Refusal::too_large:
    case bloom::Filter::Refusal::out_of_memory: return GrowthLimit::memory;
  }
  SEPAL_ASSERT(false, "a refusal that is none");
  return GrowthLimit::none;
}

// What a look compares a filter with.
struct Around {
  const keyspace::Keyspace& keyspace;
  WallTime wall;
  SteadyTime steady;
};

// Whether it is allowed to, whatever memory is left.
bool may_grow(const SeenFilter& seen, const keyspace::Keyspace& keyspace) {
  return seen.expansion != 0 && seen.layer_count < keyspace.options().layers_max;
}

// A layer has room for `expansion` times as many items as the one before. With an expansion of 2 or more, the
// sum soon means nothing.
std::optional<double> capacity_with(double last_layer, const SeenFilter& seen, std::uint64_t layers_max) {
  constexpr double bound = 1e18;
  auto capacity = static_cast<double>(seen.capacity);
  if (seen.expansion == 0) return capacity;
  for (std::uint64_t count = seen.layer_count; count < layers_max; ++count) {
    last_layer *= seen.expansion;
    capacity += last_layer;
    if (capacity > bound) return std::nullopt;
  }
  return capacity;
}

// Whether it surely does. To plan a layer may take a part of a millisecond, and a walk asks every filter that
// is nearly full. A layer has less than twice the memory of the one before for each item, because it is
// planned for half of its rate; a small one takes whole blocks.
bool next_layer_fits(const SeenFilter& seen, const keyspace::Keyspace& keyspace) {
  constexpr double times_max = 4;
  constexpr double blocks_max = 65536;
  return times_max * seen.expansion * static_cast<double>(seen.byte_count) + blocks_max <
         static_cast<double>(keyspace.value_limits().bytes_max);
}

FilterLook look_at(bloom::Filter& filter, FilterDetail detail, const Around& around) {
  bloom::FilterFacts facts = bloom::facts_of(filter, around.steady);
  SeenFilter& seen = detail.seen;
  seen.capacity = facts.capacity;
  seen.item_count = facts.item_count;
  seen.byte_count = facts.byte_count;
  seen.layer_count = facts.layers.size();
  seen.expansion = facts.options.expansion;
  seen.capacity_max = capacity_with(static_cast<double>(facts.layers.back().plan().capacity), seen,
                                    around.keyspace.options().layers_max);
  const bool nearly_full =
      static_cast<double>(seen.item_count) >= growth_asked_share * static_cast<double>(seen.capacity);
  if (!may_grow(seen, around.keyspace) || (nearly_full && !next_layer_fits(seen, around.keyspace)))
    seen.growth_limit = limit_of(filter.growth_refusal(around.keyspace.value_limits(seen.byte_count)));
  seen.refuses = seen.growth_limit != GrowthLimit::none && seen.item_count >= seen.capacity;
  seen.rate_asked = facts.options.error_rate;
  seen.seconds_until_full = facts.seconds_until_full();
  seen.usage = facts.usage;
  // The views of the layers are valid only while the filter is held.
  return [held = bloom::FilterPtr(&filter), facts = std::move(facts),
          detail = std::move(detail)](std::uint64_t bytes_max) mutable {
    return measured(std::exchange(facts, {}), std::move(detail), bytes_max);
  };
}

// --- filters that delete ----------------------------------------------------------------------------------

FilterLook done(FilterDetail detail) {
  return [detail = std::move(detail)](std::uint64_t) mutable { return std::move(detail); };
}

// One that grows does so cell by cell. So it cannot say what its next growth takes, but what it was refused:
// memory, or a further layer, where its identities have no more bits for one.
GrowthLimit growth_limit_of(const cuckoo::Filter& filter, const keyspace::Keyspace& keyspace) {
  if (!filter.plan().options.scaling()) return GrowthLimit::expansion;
  if (filter.refused_last()) return GrowthLimit::layers;
  return filter.bytes_refused() > keyspace.value_limits().bytes_max ? GrowthLimit::memory : GrowthLimit::none;
}

FilterLook look_at(const cuckoo::Filter& filter, FilterDetail detail, const Around& around) {
  const cuckoo::Options& options = filter.plan().options;
  auto layers = filter.layers();
  std::uint64_t items = 0;
  std::uint64_t removed = 0;
  double slots = 0;
  double slots_used = 0;
  for (const cuckoo::Filter::LayerFigures& layer : layers) {
    items += layer.items;
    removed += layer.removed;
    slots += static_cast<double>(layer.slots);
    slots_used += static_cast<double>(layer.slots_used);
  }
  SeenFilter& seen = detail.seen;
  // A filter that grows has room for more than was asked for.
  const auto room = static_cast<std::uint64_t>(cuckoo::full_load * slots);
  seen.capacity = options.scaling() ? std::max(options.capacity, room) : options.capacity;
  seen.item_count = items;
  seen.byte_count = filter.byte_count();
  seen.layer_count = layers.size();
  seen.expansion = options.expansion;
  seen.growth_limit = growth_limit_of(filter, around.keyspace);
  seen.refuses =
      options.scaling() ? seen.growth_limit != GrowthLimit::none : items >= filter.plan().item_count_max();
  seen.fill = slots_used / slots;
  seen.false_positive_rate = cuckoo::Filter::rate_of(layers);
  seen.rate_asked = options.error_rate;
  seen.removed_count = removed - std::min(removed, filter.forgotten());
  detail.layers = std::move(layers);
  return done(std::move(detail));
}

GrowthLimit growth_limit_of(const cuckoo::RedisFilter& filter, const keyspace::Keyspace& keyspace) {
  using Added = cuckoo::RedisTable::Added;
  value::Limits limits = keyspace.value_limits(filter.byte_count());
  limits.layers_max = writers::redis_layers_max_of(keyspace.options());
  switch (filter.table().growth_refusal(limits)) {
    case Added::full: return GrowthLimit::expansion;
    case Added::layer_limit: return GrowthLimit::layers;
    case Added::too_large:
    case Added::out_of_memory: return GrowthLimit::memory;
    case Added::added:
    case Added::exists: break;
  }
  return GrowthLimit::none;
}

FilterLook look_at(const cuckoo::RedisFilter& filter, FilterDetail detail, const Around& around) {
  const cuckoo::RedisHeader& header = filter.header();
  const cuckoo::RedisMeasure measured = cuckoo::measure(filter.table(), sampled_slots_max);
  SeenFilter& seen = detail.seen;
  seen.capacity = header.slot_count();
  seen.item_count = filter.item_count();
  seen.byte_count = filter.byte_count();
  seen.layer_count = header.layer_count;
  seen.expansion = header.expansion;
  seen.growth_limit = growth_limit_of(filter, around.keyspace);
  // One that has all layers refuses every add, as RedisBloom does.
  seen.refuses = header.layer_count >= writers::redis_layers_max_of(around.keyspace.options()) ||
                 (seen.growth_limit != GrowthLimit::none &&
                  (filter.table().refused_last() || seen.item_count >= seen.capacity));
  seen.fill = measured.fill;
  seen.false_positive_rate = measured.false_positive_rate;
  seen.removed_count = header.delete_count;
  std::vector<SeenRedisLayer> layers;
  for (std::uint32_t layer = 0; layer < header.layer_count; ++layer)
    layers.push_back({.buckets = header.layer_buckets(layer),
                      .slots = header.layer_slots(layer),
                      .fill = measured.fills[layer]});
  detail.layers = std::move(layers);
  return done(std::move(detail));
}

// --- filters that forget ----------------------------------------------------------------------------------

// One that cannot grow refuses items from the moment when its newest generation is full until the next one
// begins. One of the last items begins the next one instead.
FilterLook look_at(const bloom::WindowFilter& filter, FilterDetail detail, const Around& around) {
  bloom::WindowFilter::State state = filter.state(around.wall);
  SeenFilter& seen = detail.seen;
  const bloom::WindowOptions& options = filter.options();
  const bool is_full = filter.full(around.wall);
  seen.expansion = options.expansion;
  seen.byte_count = filter.byte_count();
  seen.layer_count = state.layers.size();
  const bool asks = !may_grow(seen, around.keyspace) || (is_full && !next_layer_fits(seen, around.keyspace));
  if (!options.of_last() && asks)
    seen.growth_limit = limit_of(filter.growth_refusal(around.keyspace.value_limits(filter.byte_count())));
  seen.refuses = is_full && seen.growth_limit != GrowthLimit::none;
  seen.capacity = filter.capacity();
  seen.item_count = filter.item_count(around.wall);
  // All generations that are remembered have room, one more than those of a window.
  const double room = static_cast<double>(seen.capacity) * options.lanes() / options.generations;
  seen.fill = std::min(1.0, static_cast<double>(seen.item_count) / std::max(room, 1.0));
  seen.false_positive_rate = state.error_rate;
  seen.rate_asked = options.error_rate;
  std::vector<SeenWindowLayer> layers;
  for (const auto& layer : state.layers) layers.push_back({.figures = layer, .lanes = options.lanes()});
  detail.layers = std::move(layers);
  detail.window = options;
  detail.generations = std::move(state.generations);
  return done(std::move(detail));
}

std::optional<SeenMirror> seen_mirror(const keyspace::Mirrors& mirrors, const value::Value& filter) {
  const keyspace::Mirrors::Link* const link = mirrors.empty() ? nullptr : mirrors.of(filter);
  if (link == nullptr) return std::nullopt;
  const bool is_source = link->source == &filter;
  return SeenMirror{.is_source = is_source,
                    .other = is_source ? link->mirror.target : link->mirror.source,
                    .state = link->mirror.state,
                    .items = keyspace::items_mirrored(*link)};
}

}  // namespace

bool is_shown(std::string_view pattern, std::string_view key) {
  return key.size() <= shown_key_bytes_max && matches(pattern, key);
}

std::string_view name_of_filter(Kind kind) {
  switch (kind) {
    case Kind::bloom: return "bloom";
    case Kind::cuckoo: return "cuckoo";
    case Kind::redis_cuckoo: return "redisbloom_cuckoo";
    case Kind::window: return "window";
    case Kind::string: break;
  }
  SEPAL_ASSERT(false, "a value that is no filter is shown");
  return "";
}

std::string_view name_of_limit(GrowthLimit limit) {
  switch (limit) {
    case GrowthLimit::expansion: return "expansion";
    case GrowthLimit::layers: return "layers";
    case GrowthLimit::memory: return "memory";
    case GrowthLimit::none: break;
  }
  SEPAL_ASSERT(false, "what limits nothing has no name");
  return "";
}

FilterLook look_at_filter(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key, WallTime now,
                          SteadyTime steady_now) {
  const auto [found, deadline] = keyspace.look(key, now);
  if (found == nullptr) return {};
  FilterDetail detail;
  detail.seen.database = key.database;
  detail.seen.key = metrics::printable(key.key);
  detail.seen.key_bytes = key.key;
  detail.seen.kind = found->kind();
  detail.seen.deadline = deadline;
  detail.seen.mirror = seen_mirror(keyspace.mirrors(), *found);
  const Around around{.keyspace = keyspace, .wall = now, .steady = steady_now};
  const auto looked = [&](auto* filter) { return look_at(*filter, std::move(detail), around); };
  if (auto* const filter = value::as<bloom::Filter>(found)) return looked(filter);
  if (const auto* const filter = value::as<cuckoo::Filter>(found)) return looked(filter);
  if (const auto* const filter = value::as<cuckoo::RedisFilter>(found)) return looked(filter);
  if (const auto* const filter = value::as<bloom::WindowFilter>(found)) return looked(filter);
  return {};
}

}  // namespace sepal::command
