// Moves a filled filter's big layers into huge pages, as the server's background thread does.
#pragma once

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <cstdint>
#include <vector>

namespace bench {

inline void settle(const sepal::bloom::Filter& filter) {
  for (const sepal::bloom::LayerView& layer : filter.layers())
    for (std::uint64_t piece = 0; piece < layer.piece_count(); ++piece) layer.move_to_huge_page(piece);
}

inline void settle(const sepal::bloom::WindowFilter& filter) {
  std::vector<sepal::value::SmallPages> layers;
  filter.small_pages(layers);
  for (const sepal::value::SmallPages& layer : layers)
    for (std::uint64_t piece = 0; piece < layer.piece_count; ++piece) layer.move(layer.memory, piece);
}

}  // namespace bench
