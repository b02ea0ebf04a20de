// Testing items against layers, and setting their bits: the innermost loops of every look-up and every add.
//
// The plain kernel runs everywhere; where the processor has the instructions there is a faster one that
// answers the same (avx512_kernel.cpp). What makes look-ups quick in both: the layer's shape stays in
// registers over all items of a window; probes are tested in groups whose outcome is one branch, because a
// branch for each of them would be guessed wrong for every second item; and what one layer holds is not
// skipped in the next, or the one behind it, but gone from the list.
#pragma once

#include <sepal/base/hash.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "probe.hpp"

namespace sepal::filter {

// A layer's bits and what finds them (probe.hpp).
struct Blocks {
  std::uint64_t* words;  // touched through atomics, and through the vectors of avx512_kernel.cpp
  std::uint64_t block_count;
  std::uint32_t block_bits;
  std::uint32_t probe_count;

  // Of Layout::double_hashing: there are no blocks, and block_count is that of the words. Told by a width
  // that no block has, so that it costs nothing where blocks have a usual one.
  [[nodiscard]] bool anywhere() const { return block_bits == 0; }
};

// So many items go through a layer before the next: enough that their waits for memory overlap.
inline constexpr std::size_t window_items_max = 64;

// The items of a window that no layer asked so far holds, in order: both halves of their fingerprints, and
// where they stand in the window. In columns, as vectors want them.
struct Pending {
  using Column = std::array<std::uint64_t, window_items_max>;

  std::size_t count = 0;
  alignas(64) Column low;
  alignas(64) Column high;
  alignas(64) Column index;

  [[nodiscard]] Fingerprint fingerprint(std::size_t at) const { return {.low = low[at], .high = high[at]}; }
};

// What works on layers of any shape.
struct Kernel {
  const char* name;
  // Takes from the list what any of the layers holds. The first is asked first: best that which holds most.
  void (*find)(std::span<const Blocks> layers, Pending& pending);
  // Sets the bits of an item, whose block this is. True if one changed. Nobody else sets bits in the block;
  // not in a layer without blocks.
  bool (*set)(const Blocks& blocks, std::uint64_t block, const Fingerprint& item);
};

// Those that this machine can run: the plain one first, the fastest last.
[[nodiscard]] std::span<const Kernel> kernels();

// The same as find() and set() of the fastest.
void find_items(std::span<const Blocks> layers, Pending& pending);
[[nodiscard]] bool set_item(const Blocks& blocks, std::uint64_t block, const Fingerprint& item);

// Asks for items' blocks from memory, if they lie within a cache line: to ask for some of the lines of larger
// ones costs more than it saves. Into the second cache, where a core has places for more lines on their way
// than in the first: those of a whole window (decision 0008).
class BlockPrefetch {
 public:
  explicit BlockPrefetch(const Blocks& blocks)
      : words_(blocks.words), block_count_(blocks.block_count), block_words_(blocks.block_bits / word_bits) {}

  // Below 1, of a layer without blocks, is far above as well.
  [[nodiscard]] bool worth_it() const { return block_words_ - 1 < cache_line_bits / word_bits; }
  // Of the item with this lower half of its fingerprint.
  void operator()(std::uint64_t low) const {
    __builtin_prefetch(words_ + scaled(low, block_count_) * block_words_, 0, second_cache);
  }

 private:
  static constexpr std::uint32_t cache_line_bits = 512;
  static constexpr int second_cache = 2;  // locality, as the compiler counts it

  const std::uint64_t* words_;
  std::uint64_t block_count_;
  std::uint32_t block_words_;
};

// Whether the layer holds this item.
[[nodiscard]] bool holds_item(const Blocks& blocks, const Fingerprint& item);

}  // namespace sepal::filter
