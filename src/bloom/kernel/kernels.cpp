#include "bloom/kernel/kernels.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "bloom/kernel/avx512_kernel.hpp"
#include "bloom/kernel/positions.hpp"

namespace sepal::bloom {
namespace {

// An absent item nearly always fails in its first group: with half of the bits set, one in 2^4 goes on.
constexpr std::uint32_t group_probes = 4;
// Up to so many probes are one group: whether the item is there is then the only branch.
constexpr std::uint32_t one_group_probes_max = 8;

template <class Positions>
bool holds(const Blocks& blocks, const Positions& positions, const Fingerprint& item, std::uint32_t group) {
  std::uint64_t* const block = blocks.words + positions.first_word(blocks, item);
  for (std::uint32_t probe = 0; probe < blocks.probe_count;) {
    std::uint64_t all = 1;
    for (const std::uint32_t end = std::min(probe + group, blocks.probe_count); probe < end; ++probe) {
      const std::uint64_t position = positions.position(item, probe);
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

template <class Positions>
void find(const Blocks& blocks, const Positions& positions, Pending& pending) {
  const std::uint32_t group = group_of(blocks);
  std::size_t left = 0;
  for (std::size_t at = 0; at < pending.count; ++at) {
    const Fingerprint item = pending.fingerprint(at);
    // Every item is written to the next place, and the place is kept only if the item stays. So there is no
    // branch on the outcome, which cannot be guessed.
    pending.low[left] = item.low;
    pending.high[left] = item.high;
    pending.index[left] = pending.index[at];
    left += holds(blocks, positions, item, group) ? 0 : 1;
  }
  pending.count = left;
}

void find_plainly(std::span<const Blocks> layers, Pending& pending) {
  for (const Blocks& blocks : layers) {
    if (pending.count == 0) return;
    with_positions(blocks, [&](const auto& positions) { find(blocks, positions, pending); });
  }
}

// Every word is stored, changed or not: whether a bit is new is as uncertain as a coin toss, and a branch on
// it costs more than the store.
template <class Positions>
bool set(const Blocks& blocks, const Positions& positions, std::uint64_t* block, const Fingerprint& item) {
  std::uint64_t changed = 0;
  // A copy: the compiler cannot know that the stores leave the shape alone.
  const std::uint32_t probe_count = blocks.probe_count;
  for (std::uint32_t probe = 0; probe < probe_count; ++probe) {
    const std::uint64_t position = positions.position(item, probe);
    const std::atomic_ref<std::uint64_t> word(block[position / word_bits]);
    const std::uint64_t before = word.load(std::memory_order_relaxed);
    const std::uint64_t bit = std::uint64_t{1} << (position % word_bits);
    word.store(before | bit, std::memory_order_relaxed);
    changed |= bit & ~before;
  }
  return changed != 0;
}

bool set_plainly(const Blocks& blocks, std::uint64_t block, const Fingerprint& item) {
  std::uint64_t* const words = blocks.words + block * (blocks.block_bits / word_bits);
  return is_power_of_two(blocks) ? set(blocks, PowerOfTwo(blocks), words, item)
                                 : set(blocks, AnyWidth(blocks), words, item);
}

// Chosen once, at the first use.
class Kernels {
 public:
  Kernels() {
    // The plain kernel stays first: the AVX-512 kernel hands it what it cannot do.
    if (const Kernel* const kernel = avx512_kernel()) kernels_[count_++] = *kernel;
  }
  [[nodiscard]] std::span<const Kernel> all() const { return std::span(kernels_).first(count_); }

 private:
  std::array<Kernel, 2> kernels_{Kernel{.name = "plain", .find = find_plainly, .set = set_plainly}};
  std::size_t count_ = 1;
};

}  // namespace

std::span<const Kernel> kernels() {
  static const Kernels kernels;
  return kernels.all();
}

void find_items(std::span<const Blocks> layers, Pending& pending) {
  kernels().back().find(layers, pending);
}

bool set_item(const Blocks& blocks, std::uint64_t block, const Fingerprint& item) {
  return kernels().back().set(blocks, block, item);
}

bool holds_item(const Blocks& blocks, const Fingerprint& item) {
  return with_positions(
      blocks, [&](const auto& positions) { return holds(blocks, positions, item, group_of(blocks)); });
}

}  // namespace sepal::bloom
