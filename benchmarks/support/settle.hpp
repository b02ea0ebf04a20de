// Moves a filled filter's big layers into huge pages, as the server's background thread does.
#pragma once

#include <sepal/filter/filter.hpp>

#include <cstdint>

namespace bench {

inline void settle(const sepal::filter::Filter& filter) {
  for (const sepal::filter::LayerView& layer : filter.layers())
    for (std::uint64_t piece = 0; piece < layer.piece_count(); ++piece) layer.move_to_huge_page(piece);
}

}  // namespace bench
