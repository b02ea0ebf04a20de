#include "bloom/kernel/set_items.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>

#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

// So many cache lines are asked for ahead: more than a core can wait for at once.
constexpr std::size_t lines_ahead = 24;
constexpr std::uint32_t line_words = 8;

// An item's probes reach nearly all lines of its block, so all lines are asked for, to write to them. Inline,
// because GCC takes the call for one without an effect and leaves it out.
[[gnu::always_inline]] inline void prefetch(const Blocks& blocks, const Fingerprint& item) {
  const std::uint64_t block_words = blocks.block_bits / word_bits;
  const std::uint64_t* const block = blocks.words + block_of(item, blocks.block_count) * block_words;
  for (std::uint64_t word = 0; word < block_words; word += line_words) __builtin_prefetch(block + word, 1);
}

}  // namespace

std::uint64_t set_items(const Blocks& blocks, std::span<const Fingerprint> items, std::size_t count) {
  SEPAL_ASSERT(count <= items.size() && !blocks.anywhere(),
               "a run has more items than there are, or its layer has no blocks");
  // A copy: the compiler cannot know that the stores leave the shape alone.
  const Blocks shape = blocks;
  const std::size_t block_lines = std::max<std::size_t>(shape.block_bits / (line_words * word_bits), 1);
  const std::size_t items_ahead = std::max<std::size_t>(lines_ahead / block_lines, 1);
  // Blocks that fit the cache are not asked for; a single block fits, however many lines it has.
  const std::size_t prefetched = shape.block_count == 1 ? 0 : items.size();
  const auto set = kernel().set;
  std::uint64_t changed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i + items_ahead < prefetched) prefetch(shape, items[i + items_ahead]);
    changed += set(shape, block_of(items[i], shape.block_count), items[i]) ? 1 : 0;
  }
  return changed;
}

}  // namespace sepal::bloom
