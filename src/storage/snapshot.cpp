#include <sepal/storage/snapshot.hpp>

#include <algorithm>

namespace sepal::storage {
namespace {

// Filters lie scattered in memory; asking for the ones to come hides a part of the way there.
constexpr std::size_t prefetch_distance = 16;

}  // namespace

Snapshot cut_of(const keyspace::Keyspace& keyspace, WallTime now) {
  return {.taken_at = now, .entries = keyspace.cut(), .layer_counts = {}, .layers = {}};
}

bool take_layers(Snapshot& snapshot, std::size_t filters_max) {
  const std::size_t count = snapshot.entries.size();
  const std::size_t begin = snapshot.layer_counts.size();
  const std::size_t end = begin + std::min(filters_max, count - begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (i + prefetch_distance < count)
      __builtin_prefetch(snapshot.entries[i + prefetch_distance].filter.get());
    const std::vector<filter::LayerView> layers = snapshot.entries[i].filter->layers();
    snapshot.layer_counts.push_back(static_cast<std::uint32_t>(layers.size()));
    for (const filter::LayerView& layer : layers)
      snapshot.layers.push_back({.view = layer, .item_count = layer.item_count()});
  }
  return end == count;
}

Snapshot snapshot_of(const keyspace::Keyspace& keyspace, WallTime now) {
  Snapshot snapshot = cut_of(keyspace, now);
  take_layers(snapshot, snapshot.entries.size());
  return snapshot;
}

}  // namespace sepal::storage
