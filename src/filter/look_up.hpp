// Testing items against one layer: the innermost loops of every look-up.
//
// What makes them quick: the layer's shape stays in registers over all items of a window; positions in blocks
// of a power of two bits are a multiplication and a shift; probes are tested in groups whose outcome is one
// branch, because a branch for each of them would be guessed wrong for every second item; and what one layer
// holds is not skipped in the next but gone from the list.
#pragma once

#include <sepal/base/hash.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sepal::filter {

// A layer's bits and what finds them (probe.hpp).
struct Blocks {
  std::uint64_t* words;  // touched through atomics only
  std::uint64_t block_count;
  std::uint32_t block_bits;
  std::uint32_t probe_count;
};

// Whether the layer holds this item.
[[nodiscard]] bool holds_item(const Blocks& blocks, const Fingerprint& item);

// Asks for the blocks of these items from memory.
void prefetch_blocks(const Blocks& blocks, std::span<const Fingerprint> items);

// Of the items whose indices are `pending`, in order, those that the layer does not hold stay: they are moved
// to the front, and their number is returned.
std::size_t find_items(const Blocks& blocks, std::span<const Fingerprint> items,
                       std::span<std::uint8_t> pending);

}  // namespace sepal::filter
