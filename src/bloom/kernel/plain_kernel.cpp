// Probes are tested one word at a time. What costs is a branch that is guessed wrong, and a line that is read
// in vain. Which of the two weighs more depends on the request:
//
//     one layer           all probes of an item are one branch, up to one_group_probes_max of them
//     several: item by    the first probes of a layer are one branch, which says "absent" 15 times in 16. An
//     item                item that a layer holds is not looked for in the next
//     several: layer by   first two probes of all items, then two more of those that had both, then the
//     layer               others. No branch depends on a bit, and nearly half of the lines are not read. The
//                         first two probes are one layer ahead of the others, as in avx512_kernel.cpp
//
// The second way is right for a few items, and for known ones: half of these are in the newest layer. The
// third one is right for many absent items.
#include "bloom/kernel/plain_kernel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <span>

#include "bloom/kernel/positions.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

// An absent item nearly always fails in its first group: with half of the bits set, one in 2^4 goes on.
constexpr std::uint32_t group_probes = 4;
// Up to so many probes are one group: whether the item is there is then the only branch.
constexpr std::uint32_t one_group_probes_max = 8;

// Bit `position` of the block, in the lowest bit. The others are its neighbours.
[[gnu::always_inline]] inline std::uint64_t bit_at(std::uint64_t* block, std::uint64_t position) {
  const std::atomic_ref<std::uint64_t> word(block[position / word_bits]);
  return word.load(std::memory_order_relaxed) >> (position % word_bits);
}

template <class Positions>
bool holds(const Blocks& blocks, const Positions& positions, const Fingerprint& item, std::uint32_t group) {
  std::uint64_t* const block = blocks.words + positions.first_word(blocks, item);
  for (std::uint32_t probe = 0; probe < blocks.probe_count;) {
    std::uint64_t all = 1;
    for (const std::uint32_t end = std::min(probe + group, blocks.probe_count); probe < end; ++probe)
      all &= bit_at(block, positions.position(item, probe));
    if (all == 0) return false;
  }
  return true;
}

std::uint32_t group_of(const Blocks& blocks) {
  return blocks.probe_count <= one_group_probes_max ? one_group_probes_max : group_probes;
}

template <class Positions>
void find(const Blocks& blocks, const Positions& positions, Pending& pending) {
  const std::uint32_t group = group_of(blocks);
  pending.keep_if([&](const Fingerprint& item) { return !holds(blocks, positions, item, group); });
}

// --- several layers ---------------------------------------------------------------------------------------

// The products with the first multipliers are the same in all layers, so a layer costs one more product for
// the block and one for each probe. These are of 128 bits also where a shift would do: a branch on the width
// would be guessed wrong in filters that have layers of both kinds.
using ItemProducts = std::array<std::uint64_t, group_probes>;

ItemProducts first_products(std::uint64_t high) {
  ItemProducts products;
  for (std::uint32_t probe = 0; probe < group_probes; ++probe)
    products[probe] = high * probe_multipliers[probe];
  return products;
}

// Whether the layer has blocks, and so many probes.
bool has_first_probes(const Blocks& blocks) {
  return !blocks.anywhere() && blocks.probe_count >= group_probes;
}

// The lowest bit of the result: whether probes `from` and `from + 1` of the item are set.
[[gnu::always_inline]] inline std::uint64_t two_bits(std::uint64_t* block, std::uint64_t block_bits,
                                                     const ItemProducts& products, std::uint32_t from) {
  return bit_at(block, scaled(products[from], block_bits)) &
         bit_at(block, scaled(products[from + 1], block_bits));
}

// 1 where all probes behind the first ones are set, else 0.
std::uint64_t rest_is_set(const Blocks& blocks, std::uint64_t* block, std::uint64_t high) {
  std::uint64_t all = 1;
  const std::uint64_t block_bits = blocks.block_bits;
  const std::uint32_t probe_count = blocks.probe_count;
  for (std::uint32_t probe = group_probes; probe < probe_count; ++probe)
    all &= bit_at(block, scaled(high * probe_multipliers[probe], block_bits));
  return all;
}

bool holds(const Blocks& blocks, const Fingerprint& item, const ItemProducts& products) {
  if (!has_first_probes(blocks)) [[unlikely]]
    return holds_item(blocks, item);
  std::uint64_t* const block = blocks.words + OfBlocks::first_word(blocks, item);
  const std::uint64_t all =
      two_bits(block, blocks.block_bits, products, 0) & two_bits(block, blocks.block_bits, products, 2);
  return (all & 1) != 0 && rest_is_set(blocks, block, item.high) != 0;
}

// The items of a window from place `from` on, on their way through the layers. A set of items is a word with
// a bit for each place in the list. In a list of places the address of a store would depend on the bits
// before it, and some processors let no later load pass such a store (decisions/0056).
class LayerByLayer {
 public:
  LayerByLayer(const Pending& pending, std::size_t from) : pending_(pending) {
    for (std::size_t at = from; at < pending.count; ++at) {
      products_[at] = first_products(pending.high[at]);
      absent_ |= std::uint64_t{1} << at;
    }
  }

  void look_in(const Blocks& blocks) {
    if (!has_first_probes(blocks)) {
      finish();
      absent_ &= ~held_plainly(blocks);
      return;
    }
    const std::uint64_t had_two = those(absent_, [&](std::uint32_t at) {
      return two_bits(block(blocks, at), blocks.block_bits, products_[at], 0);
    });
    // Only now: the first words of this layer are on their way while the rest of the layer before is tested.
    finish();
    layer_ = &blocks;
    candidates_ = had_two & absent_;
  }
  // Finishes the tests of the layers so far.
  void finish() {
    if (candidates_ == 0) return;
    const std::uint64_t had_four = those(candidates_, [&](std::uint32_t at) {
      return two_bits(block(*layer_, at), layer_->block_bits, products_[at], 2);
    });
    absent_ &= ~those(had_four, [&](std::uint32_t at) {
      return rest_is_set(*layer_, block(*layer_, at), pending_.high[at]);
    });
    candidates_ = 0;
  }
  // Those that no layer so far holds.
  [[nodiscard]] std::uint64_t absent() const { return absent_; }

 private:
  // Those of `items` for which test(place) is odd.
  template <class Test>
  [[gnu::always_inline]] static std::uint64_t those(std::uint64_t items, const Test& test) {
    std::uint64_t passed = 0;
    for (; items != 0; items &= items - 1) {
      const auto at = static_cast<std::uint32_t>(std::countr_zero(items));
      passed |= (test(at) & 1) << at;
    }
    return passed;
  }

  [[nodiscard]] std::uint64_t held_plainly(const Blocks& blocks) const {
    return those(absent_, [&](std::uint32_t at) {
      return static_cast<std::uint64_t>(holds_item(blocks, pending_.fingerprint(at)));
    });
  }
  [[nodiscard]] std::uint64_t* block(const Blocks& blocks, std::uint32_t at) const {
    return blocks.words + scaled(pending_.low[at], blocks.block_count) * (blocks.block_bits / word_bits);
  }

  const Pending& pending_;
  std::array<ItemProducts, window_items_max> products_;
  std::uint64_t absent_ = 0;
  const Blocks* layer_ = nullptr;  // where candidates_ were found
  std::uint64_t candidates_ = 0;   // first two probes set in layer_, the others still to be tested
};

void find_in_several(std::span<const Blocks> layers, Pending& pending) {
  // A batch is mostly of known items, or mostly of new ones: the first items tell.
  constexpr std::size_t items_to_try = 8;
  constexpr std::size_t most_are_absent = 4;  // where one in more is known
  std::uint64_t absent = 0;
  std::size_t at = 0;
  std::size_t known = 0;
  while (at < pending.count &&
         (at < items_to_try || known * most_are_absent >= at || pending.count - at < items_to_try)) {
    const bool held = any_holds(layers, pending.fingerprint(at));
    known += held ? 1 : 0;
    absent |= std::uint64_t{held ? 0U : 1U} << at++;
  }
  if (at < pending.count) {
    LayerByLayer search(pending, at);
    for (const Blocks& blocks : layers) {
      if (search.absent() == 0) break;
      search.look_in(blocks);
    }
    search.finish();
    absent |= search.absent();
  }
  pending.keep(absent);
}

void find_plainly(std::span<const Blocks> layers, Pending& pending) {
  if (layers.size() > 1) return find_in_several(layers, pending);
  with_positions(layers[0], [&](const auto& positions) { find(layers[0], positions, pending); });
}

// --- setting bits -----------------------------------------------------------------------------------------

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

}  // namespace

const Kernel& plain_kernel() {
  static constexpr Kernel kernel{.name = "plain", .find = find_plainly, .set = set_plainly};
  return kernel;
}

bool holds_item(const Blocks& blocks, const Fingerprint& item) {
  return with_positions(
      blocks, [&](const auto& positions) { return holds(blocks, positions, item, group_of(blocks)); });
}

bool any_holds(std::span<const Blocks> layers, const Fingerprint& item) {
  const ItemProducts products = first_products(item.high);
  return std::ranges::any_of(layers, [&](const Blocks& blocks) { return holds(blocks, item, products); });
}

}  // namespace sepal::bloom
