// What the layers of a filter follow from, and whether those that come from a disk could be its layers.
#pragma once

#include <sepal/filter/filter.hpp>

#include <span>

namespace sepal::filter {

// Nothing is allocated by these numbers before they have passed. False where they contradict the options or
// each other, or where arithmetic on them could wrap.
[[nodiscard]] bool is_sound(const FilterOptions& options, std::span<const Filter::LayerState> layers);

[[nodiscard]] bool is_sound(const FilterOptions& options);

// What layer `layer_index` (0 is the oldest) of such a filter is planned for.
[[nodiscard]] double layer_error_rate(const FilterOptions& options, std::uint32_t layer_index);

}  // namespace sepal::filter
