// The error rate of each layer of a filter, and whether layers that come from a disk could be a filter's
// layers.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <span>

namespace sepal::bloom {

// Checks these numbers before anything is allocated by them. False where they contradict the options or each
// other, or where arithmetic on them could wrap. A layer of blocks may have a smaller capacity than its place
// asks for: it was shrunk.
[[nodiscard]] bool is_sound(const FilterOptions& options, std::span<const Filter::LayerState> layers);

[[nodiscard]] bool is_sound(const FilterOptions& options);

// The first `foreign_layers` layers of a filter came with it from RedisBloom or from a client program: they
// have another layout than Layout::blocked.
struct LayerPlace {
  std::uint32_t index = 0;  // 0 is the oldest
  std::uint32_t foreign_layers = 0;
};
// The error rate that the layer at this place is planned for.
[[nodiscard]] double layer_error_rate(const FilterOptions& options, const LayerPlace& place);

// The capacity of the layer at this index, above foreign ones, is so many times that of the layer before it.
// Above a client's bitmap the first layer has as much as was asked for the bitmap.
[[nodiscard]] inline std::uint32_t growth(const FilterOptions& options, std::size_t layer_index) {
  return options.hash == ItemHash::xxh3_above_bitmap && layer_index == 1 ? 1 : options.expansion;
}

// Whether the layer at this index, from 1 on, has a smaller capacity than it asks for, above the layer
// `below`. Both are of a sound filter.
[[nodiscard]] inline bool is_shrunk(const FilterOptions& options, std::size_t layer_index,
                                    const LayerPlan& layer, const LayerPlan& below) {
  return layer.layout == Layout::blocked && layer.capacity != below.capacity * growth(options, layer_index);
}

}  // namespace sepal::bloom
