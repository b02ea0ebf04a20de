// Goes through a batch a window at a time. Items are hashed, and are looked up while the blocks of the next
// window are on their way.
#pragma once

#include <sepal/base/hash.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bloom/filter/layer.hpp"
#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

// What items are looked up for: to_add means that they will be written to the newest layer.
enum class LookUp : std::uint8_t { only, to_add };

// Some items, hashed, with their blocks on the way.
class Window {
 public:
  // Takes the first window_items_max of `items`; hash(item) is an item's fingerprint.
  template <class Hash>
  void load(std::span<const std::string_view> items, const Hash& hash, const LayerStack& layers) {
    pending_.count = std::min(items.size(), window_items_max);
    const BlockPrefetch newest(layers.newest().blocks());
    const bool worth_it = newest.worth_it();
    for (std::size_t i = 0; i < pending_.count; ++i) {
      const Fingerprint fingerprint = hash(items[i]);
      pending_.low[i] = fingerprint.low;
      pending_.high[i] = fingerprint.high;
      pending_.index[i] = i;
      // One at a time, so that hashing goes on while all of a core's few places for waiting loads are taken.
      if (worth_it) newest(fingerprint.low);
    }
    // The older layers' blocks are asked for after the hashes: most items are found in the newest layer, so
    // its lines come first.
    if (pending_.count > 0) layers.prefetch(layers.size() - 1, pending_);
  }

  void touch(const Layer& newest) const {
    for (std::size_t i = 0; i < pending_.count; ++i) newest.touch(pending_.fingerprint(i));
  }

  // The items that no layer knows.
  Pending& absent(const LayerStack& layers) {
    layers.find(layers.size(), pending_);
    return pending_;
  }

 private:
  Pending pending_;
};

// Calls visit(absent, at) once for each window, in order: `absent` has the window's items that no layer
// knows, and `at` is the index of the window's first item. While one window is looked up, the blocks of the
// next are on their way. begin() is called once before the first look-up, when the blocks of the first window
// have been asked for.
template <class Hash, class Begin, class Visit>
void visit_absent(std::span<const std::string_view> items, const Hash& hash, const LayerStack& layers,
                  LookUp purpose, const Begin& begin, const Visit& visit) {
  // fresh() is read once: a layer that settles during the batch costs some writes more, and no harm.
  const bool touch = purpose == LookUp::to_add && layers.newest().fresh();
  // One window is looked up while the other one's blocks are on their way; then they change places.
  std::array<Window, 2> windows;
  windows[0].load(items, hash, layers);
  begin();
  for (std::size_t at = 0, turn = 0; at < items.size(); at += window_items_max, turn ^= 1) {
    const std::size_t next = std::min(at + window_items_max, items.size());
    windows[turn ^ 1].load(items.subspan(next), hash, layers);
    // Before the look-up, whose reads would map the system's page of zeros (Layer::touch).
    if (touch) [[unlikely]]
      windows[turn].touch(layers.newest());
    visit(windows[turn].absent(layers), at);
  }
}

}  // namespace sepal::bloom
