// Setting the bits of many items one after the other, where nobody else sets bits.
#pragma once

#include <sepal/base/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels.hpp"

namespace sepal::filter {

// Sets the bits of the first `count` items, and asks for the blocks of those behind them from memory. Nobody
// else sets bits in the blocks of the first, of which the layer has some (not Blocks::anywhere). Returns how
// many of them changed a bit.
[[nodiscard]] std::uint64_t set_items(const Blocks& blocks, std::span<const Fingerprint> items,
                                      std::size_t count);

}  // namespace sepal::filter
