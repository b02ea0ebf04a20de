// A filled filter's big layers as the server's background thread leaves them: in huge pages.
#pragma once

#include <sepal/filter/filter.hpp>

#include <cstdint>

namespace bench {

inline void settle(const sepal::filter::Filter& filter) {
  for (const sepal::filter::LayerView& layer : filter.layers())
    for (std::uint64_t piece = 0; piece < layer.piece_count(); ++piece) layer.move_to_huge_page(piece);
}

}  // namespace bench
