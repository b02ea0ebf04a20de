// Testing items against layers, and setting their bits: the innermost loops of every look-up and every add.
//
// The plain kernel runs everywhere. Where the processor has the instructions, a faster one gives the same
// answers. All are quick for three reasons. The layer's shape stays in registers over all items of a window.
// Probes are tested in groups whose outcome is one branch, because a branch for each probe would be guessed
// wrong for every second item. An item that one layer holds leaves the list, so no later layer has to skip
// it.
#pragma once

#include <sepal/base/hash.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bloom/plan/probe.hpp"

namespace sepal::bloom {

// A layer's bits and what finds them (probe.hpp).
struct Blocks {
  std::uint64_t* words;  // touched through atomics, and through the vectors of avx512_kernel.cpp
  std::uint64_t block_count;
  std::uint32_t block_bits;
  std::uint32_t probe_count;

  // A layer of Layout::double_hashing: there are no blocks, and block_count is the number of words. A width
  // that no block has marks it, so the test costs nothing where blocks have a usual width.
  [[nodiscard]] bool anywhere() const { return block_bits == 0; }
};

// So many items go through one layer before the next layer: enough that their waits for memory overlap.
inline constexpr std::size_t window_items_max = 64;

// The items of a window that no layer asked so far holds, in order: both halves of their fingerprints, and
// their index in the window. In columns, as vectors need them.
struct Pending {
  using Column = std::array<std::uint64_t, window_items_max>;

  std::size_t count = 0;
  alignas(64) Column low;
  alignas(64) Column high;
  alignas(64) Column index;

  [[nodiscard]] Fingerprint fingerprint(std::size_t at) const { return {.low = low[at], .high = high[at]}; }

  // Takes out all other items. Every item is written to the next place, and the place is kept only if the
  // item stays. So there is no branch on the outcome, which cannot be guessed.
  template <class Stays>
  void keep_if(const Stays& stays) {
    std::size_t left = 0;
    for (std::size_t at = 0; at < count; ++at) {
      const Fingerprint item = fingerprint(at);
      move(at, left);
      left += stays(item) ? 1 : 0;
    }
    count = left;
  }
  // The same with a set of those that stay: bit i stands for place i. No item is moved before all are tested,
  // so no load of a test waits for a store (decisions/0056).
  void keep(std::uint64_t items) {
    const auto left = static_cast<std::size_t>(std::popcount(items));
    if (left == count) return;
    for (std::size_t to = 0; to < left; ++to, items &= items - 1)
      move(static_cast<std::size_t>(std::countr_zero(items)), to);
    count = left;
  }

 private:
  void move(std::size_t from, std::size_t to) {
    low[to] = low[from];
    high[to] = high[from];
    index[to] = index[from];
  }
};

// Functions that work on layers of any shape.
struct Kernel {
  std::string_view name;
  // Takes from the list the items that any of the layers holds: there is at least one. It is fastest if the
  // first layer holds most of them.
  void (*find)(std::span<const Blocks> layers, Pending& pending);
  // Sets the bits of an item whose block is `block`. True if one changed. No other thread sets bits in the
  // block meanwhile. Not for a layer without blocks.
  bool (*set)(const Blocks& blocks, std::uint64_t block, const Fingerprint& item);
};

// The kernels that this machine can run: the plain one first, the fastest last.
[[nodiscard]] std::span<const Kernel> kernels();

// The kernel in use (choice.hpp): the fastest, or the one that the environment names.
[[nodiscard]] const Kernel& kernel();

// Its find() and set().
void find_items(std::span<const Blocks> layers, Pending& pending);
[[nodiscard]] bool set_item(const Blocks& blocks, std::uint64_t block, const Fingerprint& item);

// Asks for items' blocks from memory, if a block lies within a cache line: to ask for some of the lines of a
// larger block costs more than it saves. Asks into the second-level cache. There a core has places for more
// lines on their way than in the first: enough for a whole window (decision 0008).
class BlockPrefetch {
 public:
  explicit BlockPrefetch(const Blocks& blocks)
      : words_(blocks.words), block_count_(blocks.block_count), block_words_(blocks.block_bits / word_bits) {}

  // A layer without blocks has width 0: the subtraction wraps, and the test fails as it should.
  [[nodiscard]] bool worth_it() const { return block_words_ - 1 < cache_line_bits / word_bits; }
  // For the item with this lower half of its fingerprint.
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

// Whether any of several layers holds this item. It is fastest if the first layer holds most items.
[[nodiscard]] bool any_holds(std::span<const Blocks> layers, const Fingerprint& item);

}  // namespace sepal::bloom
