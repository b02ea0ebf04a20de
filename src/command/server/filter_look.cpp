#include <sepal/base/assert.hpp>
#include <sepal/command/server/filter_look.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/foreign/redis_measure.hpp>
#include <sepal/metrics/exposition.hpp>
#include <sepal/value/kind_row.hpp>

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

FilterLook look_at(bloom::Filter& filter, FilterDetail detail, SteadyTime now) {
  bloom::FilterFacts facts = bloom::facts_of(filter, now);
  SeenFilter& seen = detail.seen;
  seen.capacity = facts.capacity;
  seen.item_count = facts.item_count;
  seen.byte_count = facts.byte_count;
  seen.layer_count = facts.layers.size();
  seen.expansion = facts.options.expansion;
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

FilterLook look_at(const cuckoo::Filter& filter, FilterDetail detail) {
  const cuckoo::Options& options = filter.plan().options;
  auto layers = filter.layers();
  std::uint64_t items = 0;
  std::uint64_t removed = 0;
  double slots = 0;
  double slots_used = 0;
  double right = 1;  // the probability that all layers say no
  for (const cuckoo::Filter::LayerFigures& layer : layers) {
    items += layer.items;
    removed += layer.removed;
    slots += static_cast<double>(layer.slots);
    slots_used += static_cast<double>(layer.slots_used);
    right *= 1 - std::min(1.0, layer.rate);
  }
  SeenFilter& seen = detail.seen;
  // A filter that grows has room for more than was asked for.
  const auto room = static_cast<std::uint64_t>(cuckoo::full_load * slots);
  seen.capacity = options.scaling() ? std::max(options.capacity, room) : options.capacity;
  seen.item_count = items;
  seen.byte_count = filter.byte_count();
  seen.layer_count = layers.size();
  seen.expansion = options.expansion;
  seen.fill = slots_used / slots;
  seen.false_positive_rate = 1 - right;
  seen.rate_asked = options.error_rate;
  seen.removed_count = removed - std::min(removed, filter.forgotten());
  detail.layers = std::move(layers);
  return done(std::move(detail));
}

FilterLook look_at(const cuckoo::RedisFilter& filter, FilterDetail detail) {
  const cuckoo::RedisHeader& header = filter.header();
  const cuckoo::RedisMeasure measured = cuckoo::measure(filter.table(), sampled_slots_max);
  SeenFilter& seen = detail.seen;
  seen.capacity = header.slot_count();
  seen.item_count = filter.item_count();
  seen.byte_count = filter.byte_count();
  seen.layer_count = header.layer_count;
  seen.expansion = header.expansion;
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

FilterLook look_at(const bloom::WindowFilter& filter, FilterDetail detail, WallTime now) {
  bloom::WindowFilter::State state = filter.state(now);
  SeenFilter& seen = detail.seen;
  seen.capacity = filter.capacity();
  seen.item_count = filter.item_count(now);
  seen.byte_count = filter.byte_count();
  seen.layer_count = state.layers.size();
  seen.expansion = filter.options().expansion;
  // All generations that are remembered have room, one more than those of a window.
  const double room =
      static_cast<double>(seen.capacity) * filter.options().lanes() / filter.options().generations;
  seen.fill = std::min(1.0, static_cast<double>(seen.item_count) / std::max(room, 1.0));
  seen.false_positive_rate = state.error_rate;
  seen.rate_asked = filter.options().error_rate;
  std::vector<SeenWindowLayer> layers;
  for (const auto& layer : state.layers)
    layers.push_back({.figures = layer, .lanes = filter.options().lanes()});
  detail.layers = std::move(layers);
  detail.window = filter.options();
  detail.generations = std::move(state.generations);
  return done(std::move(detail));
}

}  // namespace

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

FilterLook look_at_filter(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key, WallTime now,
                          SteadyTime steady_now) {
  value::Value* const found = keyspace.find(key, now);
  if (found == nullptr) return {};
  FilterDetail detail;
  detail.seen.database = key.database;
  detail.seen.key = metrics::printable(key.key);
  detail.seen.key_bytes = key.key;
  detail.seen.kind = found->kind();
  if (auto* const filter = value::as<bloom::Filter>(found))
    return look_at(*filter, std::move(detail), steady_now);
  if (const auto* const filter = value::as<cuckoo::Filter>(found)) return look_at(*filter, std::move(detail));
  if (const auto* const filter = value::as<cuckoo::RedisFilter>(found))
    return look_at(*filter, std::move(detail));
  if (const auto* const filter = value::as<bloom::WindowFilter>(found))
    return look_at(*filter, std::move(detail), now);
  return {};
}

std::uint64_t filter_bytes(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key) {
  const value::Value* const found = keyspace.find(key);
  if (found == nullptr) return 0;
  switch (found->kind()) {
    case Kind::bloom:
    case Kind::cuckoo:
    case Kind::redis_cuckoo:
    case Kind::window: return value::row_of(*found).byte_count(*found);
    case Kind::string: break;
  }
  return 0;
}

}  // namespace sepal::command
