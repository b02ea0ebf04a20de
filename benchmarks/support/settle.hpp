// Moves a filled filter's big layers into huge pages, as the server's background thread does.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <cstdint>

namespace bench {

inline void settle(const sepal::bloom::Filter& filter) {
  for (const sepal::bloom::LayerView& layer : filter.layers())
    for (std::uint64_t piece = 0; piece < layer.piece_count(); ++piece) layer.move_to_huge_page(piece);
}

}  // namespace bench
