// Probes are tested one word at a time. What costs is a branch that is guessed wrong, and a line that is read
// in vain. Which of the two weighs more depends on the request:
//
//     one layer           all probes of an item are one branch, up to one_group_probes_max of them
//     several: item by    the first probes of a layer are one branch, which says "absent" 15 times in 16. An
//     item                item that a layer holds is not looked for in the next
//     several: layer by   first two probes of all items, then two more of those that had both, then the
//     layer               others. No branch depends on a bit, and nearly half of the lines are not read
//
// The second way is right for a few items, and for known ones: half of these are in the newest layer. The
// third one is right for many absent items.
#include "bloom/kernel/plain_kernel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <utility>

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

// Places of items in the list. Every one is written down, and its place is kept only if it belongs there: a
// branch would be guessed wrong too often.
class Places {
 public:
  void put(std::uint8_t place, std::uint64_t belongs) {
    places_[count_] = place;
    count_ += belongs & 1;
  }
  [[nodiscard]] std::span<const std::uint8_t> all() const { return std::span(places_).first(count_); }

  // Takes out those whose bit is set.
  void remove(std::uint64_t places) {
    const std::size_t count = std::exchange(count_, 0);
    for (std::size_t at = 0; at < count; ++at) put(places_[at], ~(places >> places_[at]));
  }

 private:
  std::size_t count_ = 0;
  std::array<std::uint8_t, window_items_max> places_;
};

// The items of a window from place `from` on, on their way through the layers.
class LayerByLayer {
 public:
  LayerByLayer(const Pending& pending, std::size_t from) : pending_(pending) {
    for (std::size_t at = from; at < pending.count; ++at) {
      products_[at] = first_products(pending.high[at]);
      absent_.put(static_cast<std::uint8_t>(at), 1);
    }
  }

  void look_in(const Blocks& blocks) {
    const std::uint64_t held = has_first_probes(blocks) ? held_in(blocks) : held_plainly(blocks);
    if (held != 0) absent_.remove(held);
  }
  [[nodiscard]] std::span<const std::uint8_t> absent() const { return absent_.all(); }

 private:
  // The items that the layer holds, a bit for each place.
  [[nodiscard]] std::uint64_t held_in(const Blocks& blocks) const {
    // A copy: the compiler cannot know that the stores leave the shape alone.
    const Blocks shape = blocks;
    Places had_two;
    Places had_four;
    for (const std::uint8_t at : absent_.all())
      had_two.put(at, two_bits(block(shape, at), shape.block_bits, products_[at], 0));
    for (const std::uint8_t at : had_two.all())
      had_four.put(at, two_bits(block(shape, at), shape.block_bits, products_[at], 2));
    std::uint64_t held = 0;
    for (const std::uint8_t at : had_four.all())
      held |= rest_is_set(shape, block(shape, at), pending_.high[at]) << at;
    return held;
  }
  [[nodiscard]] std::uint64_t held_plainly(const Blocks& blocks) const {
    std::uint64_t held = 0;
    for (const std::uint8_t at : absent_.all())
      held |= static_cast<std::uint64_t>(holds_item(blocks, pending_.fingerprint(at))) << at;
    return held;
  }
  [[nodiscard]] std::uint64_t* block(const Blocks& blocks, std::uint8_t at) const {
    return blocks.words + scaled(pending_.low[at], blocks.block_count) * (blocks.block_bits / word_bits);
  }

  const Pending& pending_;
  std::array<ItemProducts, window_items_max> products_;
  Places absent_;  // that no layer so far holds
};

void find_in_several(std::span<const Blocks> layers, Pending& pending) {
  // A batch is mostly of known items, or mostly of new ones: the first items tell.
  constexpr std::size_t items_to_try = 8;
  constexpr std::size_t most_are_absent = 4;  // where one in more is known
  Places absent;
  std::size_t at = 0;
  std::size_t known = 0;
  while (at < pending.count &&
         (at < items_to_try || known * most_are_absent >= at || pending.count - at < items_to_try)) {
    const bool held = any_holds(layers, pending.fingerprint(at));
    known += held ? 1 : 0;
    absent.put(static_cast<std::uint8_t>(at++), held ? 0 : 1);
  }
  if (at < pending.count) {
    LayerByLayer search(pending, at);
    for (const Blocks& blocks : layers) {
      if (search.absent().empty()) break;
      search.look_in(blocks);
    }
    for (const std::uint8_t place : search.absent()) absent.put(place, 1);
  }
  pending.keep(absent.all());
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
