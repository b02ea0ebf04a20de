#include "look_up.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "probe.hpp"

namespace sepal::filter {
namespace {

constexpr std::uint32_t cache_line_bits = 512;
// An item that is not there fails in its first group nearly always: with half of the bits set, one in 2^4
// goes on.
constexpr std::uint32_t group_probes = 4;
// Of a block of several lines, those of so many probes are asked for: about what an absent item's test
// touches, and few enough that the layers of a grown filter do not push each other's lines out.
constexpr std::uint32_t prefetched_probes = 2;
// So few probes are one group: whether the item is there is then the only branch.
constexpr std::uint32_t one_group_probes_max = 8;

struct AnyWidth {
  std::uint64_t block_bits;
  [[nodiscard]] std::uint64_t position(std::uint64_t product) const { return scaled(product, block_bits); }
};

// The same position: the product of a fraction and 2^n is the fraction's first n bits.
struct PowerOfTwo {
  int shift;
  [[nodiscard]] std::uint64_t position(std::uint64_t product) const { return product >> shift; }
};

template <class Width>
bool holds(const Blocks& blocks, const Width& width, const Fingerprint& item, std::uint32_t group) {
  const std::uint64_t block_words = blocks.block_bits / word_bits;
  std::uint64_t* const block = blocks.words + block_of(item, blocks.block_count) * block_words;
  for (std::uint32_t probe = 0; probe < blocks.probe_count;) {
    std::uint64_t all = 1;
    for (const std::uint32_t end = std::min(probe + group, blocks.probe_count); probe < end; ++probe) {
      const std::uint64_t position = width.position(item.high * probe_multipliers[probe]);
      const std::atomic_ref<std::uint64_t> word(block[position / word_bits]);
      all &= word.load(std::memory_order_relaxed) >> (position % word_bits);
    }
    if ((all & 1) == 0) return false;
  }
  return true;
}

std::uint32_t group_of(const Blocks& blocks) {
  return blocks.probe_count <= one_group_probes_max ? one_group_probes_max : group_probes;
}

template <class Width>
std::size_t find(const Blocks& blocks, const Width& width, std::span<const Fingerprint> items,
                 std::span<std::uint8_t> pending) {
  const std::uint32_t group = group_of(blocks);
  std::size_t left = 0;
  for (const std::uint8_t index : pending) {
    pending[left] = index;
    left += holds(blocks, width, items[index], group) ? 0 : 1;
  }
  return left;
}

template <class Use>
auto with_width(const Blocks& blocks, const Use& use) {
  if (!std::has_single_bit(blocks.block_bits)) return use(AnyWidth{.block_bits = blocks.block_bits});
  return use(PowerOfTwo{.shift = 64 - std::countr_zero(blocks.block_bits)});
}

}  // namespace

bool holds_item(const Blocks& blocks, const Fingerprint& item) {
  return with_width(blocks, [&](const auto& width) { return holds(blocks, width, item, group_of(blocks)); });
}

void prefetch_blocks(const Blocks& blocks, std::span<const Fingerprint> items) {
  const std::uint64_t block_words = blocks.block_bits / word_bits;
  if (blocks.block_bits <= cache_line_bits) {
    for (const Fingerprint& item : items)
      __builtin_prefetch(blocks.words + block_of(item, blocks.block_count) * block_words);
    return;
  }
  const std::uint32_t probes = std::min(blocks.probe_count, prefetched_probes);
  with_width(blocks, [&](const auto& width) {
    for (const Fingerprint& item : items) {
      const std::uint64_t* const block = blocks.words + block_of(item, blocks.block_count) * block_words;
      for (std::uint32_t probe = 0; probe < probes; ++probe)
        __builtin_prefetch(block + width.position(item.high * probe_multipliers[probe]) / word_bits);
    }
  });
}

std::size_t find_items(const Blocks& blocks, std::span<const Fingerprint> items,
                       std::span<std::uint8_t> pending) {
  return with_width(blocks, [&](const auto& width) { return find(blocks, width, items, pending); });
}

}  // namespace sepal::filter
