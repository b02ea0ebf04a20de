// Whether layers that come from a disk could be those of a filter.
#pragma once

#include <sepal/filter/filter.hpp>

#include <span>

namespace sepal::filter {

// Nothing is allocated by these numbers before they have passed. False where they contradict the options or
// each other, or where arithmetic on them could wrap.
[[nodiscard]] bool is_sound(const FilterOptions& options, std::span<const Filter::LayerState> layers);

[[nodiscard]] bool is_sound(const FilterOptions& options);

}  // namespace sepal::filter
