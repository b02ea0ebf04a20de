// The error rate of each layer of a filter, and whether layers that come from a disk could be a filter's
// layers.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <span>

namespace sepal::bloom {

// Checks these numbers before anything is allocated by them. False where they contradict the options or each
// other, or where arithmetic on them could wrap.
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

}  // namespace sepal::bloom
