// The numbers that is_sound() judges come from disks and clients. Everything behind it relies on them: sizes
// are added and multiplied without a check, and memory is allocated by them. So they are compared with their
// limits first, and sums and products are checked for overflow.
#include "bloom/filter/layer_state.hpp"

#include <sepal/base/checked.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

// How far a layer's error rate may be from the one that its filter gives it: no further than another
// machine's arithmetic.
constexpr double rate_tolerance = 1e-9;

bool is_rate(double rate) {
  // False for NaN.
  return rate > 0 && rate < 1;
}

bool has_sound_blocks(const LayerPlan& plan) {
  // Such a layer was planned by RedisBloom, which takes more probes than Sepal does for a very small rate.
  if (plan.layout == Layout::double_hashing)
    return plan.block_bits == word_bits && plan.probe_count <= double_hashing_probe_count_max;
  if (plan.block_bits < block_bits_min || plan.block_bits % word_bits != 0) return false;
  return (plan.block_count == 1 || plan.block_bits <= block_bits_max) && plan.probe_count <= probe_count_max;
}

bool is_of_no_client(const LayerPlan& plan) {
  return plan.scheme == Scheme{} && plan.unused_bits == 0 && plan.first_seed == 0;
}

bool is_sound_client(const LayerPlan& plan) {
  return plan.block_bits == word_bits && plan.block_count <= client_bits_max / word_bits &&
         plan.unused_bits < word_bits && is_sound(plan.client_bits());
}

bool is_sound(const LayerPlan& plan) {
  if (plan.capacity == 0 || plan.block_count == 0 || plan.probe_count == 0) return false;
  if (!is_rate(plan.error_rate)) return false;
  if (plan.layout == Layout::client) return is_sound_client(plan);
  if (!is_of_no_client(plan) || !has_sound_blocks(plan)) return false;
  const auto bit_count = checked_multiply(plan.block_count, plan.block_bits);
  // A rate of at most error_rate_max takes at least a bit an item. With this, sums of capacities do not wrap
  // before sums of sizes do.
  return bit_count && plan.capacity <= *bit_count;
}

// The layout of the oldest layers, if they are no layers of blocks.
std::optional<Layout> foreign_layout_of(ItemHash hash) {
  switch (hash) {
    case ItemHash::redisbloom: return Layout::double_hashing;
    case ItemHash::xxh3_above_bitmap: return Layout::client;
    default: return std::nullopt;
  }
}

// Whether the layer has the capacity that its place asks for, above a layer for `below` items, or less.
bool has_capacity_of(const FilterOptions& options, const LayerPlace& place, const LayerPlan& plan,
                     std::uint64_t below) {
  if (place.index == 0) return plan.capacity == options.capacity;
  if (place.index < place.foreign_layers) return true;
  const auto asked = checked_multiply(below, growth(options, place.index));
  return asked && plan.capacity <= *asked;
}

// Whether a filter may have so many oldest layers that are no layers of blocks.
bool is_sound_bottom(const FilterOptions& options, std::uint32_t foreign_layers) {
  const auto layout = foreign_layout_of(options.hash);
  if ((foreign_layers > 0) != layout.has_value()) return false;
  // Nothing is added to a client's bitmap, so there is one, and the filter grows above it.
  return layout != Layout::client || (foreign_layers == 1 && options.scaling());
}

}  // namespace

// In RedisBloom each layer has half of the rate of the one before. The halving rates of all further layers
// add up to that of the last one: Sepal's layers share that much.
double layer_error_rate(const FilterOptions& options, const LayerPlace& place) {
  const auto halved = [&](std::uint32_t times) {
    return std::ldexp(options.error_rate, -static_cast<int>(times));
  };
  if (place.index < place.foreign_layers) return halved(place.index);
  const double shared = place.foreign_layers == 0 ? options.error_rate : halved(place.foreign_layers - 1);
  const double share = options.scaling() ? layer_rate_share(place.index - place.foreign_layers) : 1;
  return std::max(std::min(shared, error_rate_max) * share, error_rate_min);
}

bool is_sound(const FilterOptions& options) {
  return is_rate(options.error_rate) && options.capacity > 0 && options.expansion <= expansion_max &&
         (options.hash == ItemHash::xxh3 || options.hash == ItemHash::redisbloom ||
          options.hash == ItemHash::xxh3_above_bitmap);
}

bool is_sound(const FilterOptions& options, std::span<const Filter::LayerState> layers) {
  if (!is_sound(options) || layers.empty() || (layers.size() > 1 && !options.scaling())) return false;
  const auto foreign_layers = static_cast<std::uint32_t>(
      std::ranges::find(layers, Layout::blocked, [](const auto& layer) { return layer.plan.layout; }) -
      layers.begin());
  const auto foreign_layout = foreign_layout_of(options.hash);
  if (!is_sound_bottom(options, foreign_layers)) return false;
  std::uint64_t capacity = options.capacity;
  std::uint64_t total_bits = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto& [plan, item_count] = layers[i];
    if (!is_sound(plan) || item_count > plan.capacity) return false;
    if (plan.layout != (i < foreign_layers ? *foreign_layout : Layout::blocked)) return false;
    const LayerPlace place{.index = static_cast<std::uint32_t>(i), .foreign_layers = foreign_layers};
    if (!has_capacity_of(options, place, plan, capacity)) return false;
    capacity = plan.capacity;
    // The rate in the header is only checked, and never used: it follows from the filter's rate and the
    // layer's place.
    const double error_rate = layer_error_rate(options, place);
    if (std::abs(plan.error_rate - error_rate) > rate_tolerance * error_rate) return false;
    // A client's bitmap may be said to hold more items than it has bits.
    const auto sum = checked_add(total_bits, std::max(plan.bit_count(), plan.capacity));
    if (!sum) return false;
    total_bits = *sum;
  }
  return true;
}

}  // namespace sepal::bloom
