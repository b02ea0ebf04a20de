// Sets the bits of many items, one after the other, where no other thread sets bits.
#pragma once

#include <sepal/base/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

// Sets the bits of the first `count` items, and asks for the blocks of the items behind them from memory. No
// other thread sets bits in the blocks of the first `count` items. The layer has blocks (not
// Blocks::anywhere). Returns how many of the first `count` items changed a bit.
[[nodiscard]] std::uint64_t set_items(const Blocks& blocks, std::span<const Fingerprint> items,
                                      std::size_t count);

}  // namespace sepal::bloom
