// A layer: the shape of its plan, its bits, its count of items. Two ways to keep them:
//
//     small   | header: shape, lock, room, count | bits ... |      in one place, one lock
//     large   | header | Store: shape |-->  bitmap, shards         (bitmap.hpp, shards.hpp)
//
// A layer that was a client's bitmap (Layout::client) is kept as a large one, and holds no item that is
// looked up by its fingerprint: its blocks are those of an empty layer. It has no room.
//
// Millions of filters are small and hold a hundred items, so the header's size matters. The first layer
// stands right behind its filter's own header, in the same allocation, and a test checks the sizes. The error
// rate that a layer was planned for is not here: it follows from the filter's rate and the layer's index
// (layer_state.hpp).
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/base/spin_lock.hpp>
#include <sepal/bloom/filter/usage.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/value/bitmap.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include "bloom/filter/shards.hpp"
#include "bloom/kernel/kernels.hpp"

namespace sepal::bloom {

using value::Bitmap;
using value::Paging;

enum class Added : std::uint8_t { yes, present, no_room };

// Members are guarded in the sense of filter.hpp.
class alignas(std::uint64_t) Layer {
 public:
  // What a small layer can count.
  static constexpr std::uint64_t small_capacity_max = std::numeric_limits<std::uint16_t>::max();

  // Creates a layer with room for plan.capacity less `item_count` items, in an allocation of its own. The
  // plan is sound (layer_state.hpp). Errors: out_of_memory.
  static Result<std::unique_ptr<Layer>> create(const LayerPlan& plan, std::uint64_t item_count,
                                               Paging paging);
  // The same in the caller's memory: place_bytes(plan) zeroed bytes, aligned as a Layer is. Null when the
  // system refuses the rest. The owner of the memory ends the layer by its destructor.
  static Layer* create_at(void* place, const LayerPlan& plan, std::uint64_t item_count, Paging paging);
  static std::uint64_t place_bytes(const LayerPlan& plan);
  // The memory that a layer takes outside of its place.
  static std::uint64_t outside_bytes(const LayerPlan& plan);
  // The memory that create() takes.
  static std::uint64_t footprint(const LayerPlan& plan);

  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  static void operator delete(void* allocated);

  // --- shared ---------------------------------------------------------------------------------------------

  // Without the error rate, which the filter knows.
  [[nodiscard]] LayerPlan plan() const;
  [[nodiscard]] std::uint64_t capacity() const { return small_ ? small_capacity_ : store().capacity; }
  [[nodiscard]] std::uint64_t identity() const { return small_ ? 0 : store().identity; }
  [[nodiscard]] std::uint64_t item_count() const;
  // No item is ever added to the layer again: it holds its capacity, or is a client's bitmap. May say false
  // while the adds that make it true are running. A thread that is told true sees all bits of the layer.
  [[nodiscard]] bool full() const;
  // The items that claim() would take room for now, without those that shards have in reserve.
  [[nodiscard]] std::uint64_t room() const;

  // The layer has counted no item, as far as this thread knows: other threads may have added some.
  [[nodiscard]] bool small_and_empty() const {
    return small_ && item_count_.load(std::memory_order_relaxed) == 0;
  }

  // It has its bits in its place.
  [[nodiscard]] bool small() const { return small_; }
  // Null where none is kept; a small layer keeps none.
  [[nodiscard]] Usage* usage() const;

  // What the kernels search, and set bits in.
  [[nodiscard]] Blocks blocks() const;
  [[nodiscard]] bool contains(const Fingerprint& fingerprint) const;
  // For a client's bitmap: whether all bits of the item are set.
  [[nodiscard]] bool holds(std::string_view item) const;

  // Takes room for `items` items that add_claimed() will add, all or none. Unused room must be given back.
  [[nodiscard]] bool claim(std::uint64_t items);
  void give_back(std::uint64_t items);
  // Asks for the line that claim() and give_back() write to. Other threads write to it too, so it is seldom
  // in this core's cache.
  void prefetch_room() const;
  // The layer has pieces, and pages that may never have been touched: a thread that is about to add an item
  // calls touch() before it looks the item up.
  [[nodiscard]] bool fresh() const { return fresh_.load(std::memory_order_relaxed); }
  // For a fresh layer: writes to the item's block, and changes nothing. When the first touch of a page is a
  // read, the system maps its page of zeros, and replaces it at the write that follows: then every core that
  // runs this process has to be told.
  void touch(const Fingerprint& fingerprint) const;
  // Asks for what add_claimed() of this item will write to. Other threads write there as well, so it is
  // seldom in this core's cache.
  void prefetch_for_add(const Fingerprint& fingerprint) const;
  // Whether the blocks are in memory of their own, and so may be outside of the caches.
  [[nodiscard]] bool is_far() const;
  // Adds the lines of the item's block to `lines`.
  void collect_lines(const Fingerprint& fingerprint, LinesAhead& lines) const;
  // True if the item was new. Then it has used one claim.
  bool add_claimed(const Fingerprint& fingerprint);
  // Adds the first `count` items, for which room is claimed, while no other thread adds to their blocks. Asks
  // for the blocks of the items behind them from memory. Returns how many were new: each of these used a
  // claim.
  std::uint64_t add_run(std::span<const Fingerprint> items, std::size_t count);
  // Adds one item without a claim. no_room: nothing changed, and the newest layer may still have room that
  // sweep() finds.
  Added add(const Fingerprint& fingerprint);

  void copy_bits(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] double fill(std::uint64_t sample_bytes_max) const;
  [[nodiscard]] std::uint64_t piece_count() const { return small_ ? 0 : store().bitmap.piece_count(); }
  // For a layer that has pieces.
  [[nodiscard]] bool in_use(std::uint64_t piece) const { return store().bitmap.in_use(piece); }
  void move_to_huge_page(std::uint64_t piece) const;

  // --- of one key -----------------------------------------------------------------------------------------

  // Collects the room that is left in one place. So if no other thread adds, claim(1) fails only when the
  // layer is full.
  void sweep();
  // From now on usage() is what `older` has, whose filter is this one's. A small layer has none. No other
  // thread knows this layer.
  void share_usage(const Layer& older);
  // The layer is large and has none.
  void keep_usage(std::unique_ptr<Usage> usage);

  // --- exclusive ------------------------------------------------------------------------------------------

  void fill_bits(std::uint64_t offset, std::span<const std::byte> from);
  // The same, but bits that are set stay set. In whole words.
  void or_bits(std::uint64_t offset, std::span<const std::byte> from);
  // Sets the bits of items, and counts none.
  void set_bits(std::span<const Fingerprint> items);
  // No other thread has ever added to the layer.
  void set_item_count(std::uint64_t item_count);
  // As Filter::add_recorded().
  [[nodiscard]] bool add_recorded(std::span<const Fingerprint> fingerprints);

 private:
  // A large layer has this where a small one has its bits: behind the header.
  struct Store {
    Bitmap bitmap;
    std::unique_ptr<Shards> shards;
    Blocks blocks;
    std::uint64_t capacity;
    std::uint64_t identity;
    std::unique_ptr<Usage> own_usage;  // which began with this layer
    Usage* usage;                      // this, or that of an older layer; atomic
    std::optional<LayerPlan> client;   // the shape of a client's bitmap
  };

  static Layer* create_client_at(void* place, const LayerPlan& plan, std::uint64_t item_count, Paging paging);
  [[nodiscard]] std::uint64_t* words() const;

  Layer(const LayerPlan& plan, std::uint64_t item_count);  // small
  Layer(Store store, bool fresh);                          // large

  // For a large layer. A small one has its bits in this place.
  [[nodiscard]] Store& store() const;

  // These belong to a small layer, whose numbers fit. The room is never above the capacity less the items.
  using SmallCount = std::uint16_t;
  std::atomic<SmallCount> room_{0};
  std::atomic<SmallCount> item_count_{0};  // Written under lock_.
  SmallCount small_capacity_ = 0;
  std::uint16_t block_count_ = 0;
  std::uint16_t block_words_ = 0;
  std::uint8_t probe_count_ = 0;
  SpinLock lock_;  // A large layer has its shards' locks.
  bool small_;
  mutable std::atomic<bool> fresh_{false};  // Until the last piece is moved.
};

// The Store or the bits follow the header; place_bytes() makes room for them.
static_assert(sizeof(Layer) % alignof(std::uint64_t) == 0);

inline Layer::Store& Layer::store() const {
  static_assert(sizeof(Layer) % alignof(Store) == 0);
  // The Store was made by placement new behind this object, so a pointer that is computed from `this` needs
  // launder(). A const layer gives it away as well: its bits and counts are atomics or behind locks.
  return *std::launder(reinterpret_cast<Store*>(const_cast<Layer*>(this) + 1));
}

// Each add and look-up asks for it.
inline Blocks Layer::blocks() const {
  if (!small_) return store().blocks;
  return {.words = reinterpret_cast<std::uint64_t*>(const_cast<Layer*>(this) + 1),
          .block_count = block_count_,
          .block_bits = block_words_ * word_bits,
          .probe_count = probe_count_};
}

inline bool Layer::contains(const Fingerprint& fingerprint) const {
  return holds_item(blocks(), fingerprint);
}

// The layers of a filter above its first one, and the shapes of all. It never changes: a filter that grows
// gets another list, because other threads may be reading this one.
class LayerList {
 public:
  // The layers of `before` and one more; without `before`, the first layer and one more. Null when the system
  // refuses the memory.
  static std::unique_ptr<LayerList> create(const LayerList* before, const Layer& first, Layer& newest);
  // The memory of a list of so many layers above the first one.
  static std::uint64_t footprint(std::size_t count);
  static void operator delete(void* allocated);

  // Oldest first.
  [[nodiscard]] std::span<Layer* const> layers() const {
    return {std::launder(reinterpret_cast<Layer* const*>(blocks().data() + count_ + 1)), count_};
  }
  // Those of all layers, newest first: the look-up of one item reads no layer, but these and the bits.
  [[nodiscard]] std::span<const Blocks> blocks() const {
    return {std::launder(reinterpret_cast<const Blocks*>(this + 1)), count_ + 1};
  }

 private:
  explicit LayerList(std::size_t count) : count_(count) {}
  std::size_t count_;  // The blocks follow this object, and the pointers follow them.
};

static_assert(sizeof(LayerList) % alignof(Blocks) == 0 && sizeof(Blocks) % alignof(Layer*) == 0);

// A filter's layers by index, 0 being the oldest. Layers that are appended later are not in it. Valid inside
// the gate.
class LayerStack {
 public:
  // `younger` is null where there is one layer.
  LayerStack(Layer& first, const LayerList* younger) : first_(first), younger_(younger) {}

  [[nodiscard]] std::uint32_t size() const {
    return younger_ == nullptr ? 1 : static_cast<std::uint32_t>(younger_->blocks().size());
  }
  [[nodiscard]] Layer& operator[](std::uint32_t index) const {
    return index == 0 ? first_ : *younger_->layers()[index - 1];
  }
  [[nodiscard]] Layer& newest() const { return younger_ == nullptr ? first_ : *younger_->layers().back(); }

  // Whether any layer holds the item. The newest is asked first, as in find().
  [[nodiscard]] bool hold(const Fingerprint& item) const {
    return younger_ == nullptr ? first_.contains(item) : any_holds(younger_->blocks(), item);
  }
  // Asks for the blocks that the items have in the oldest `count` layers, where that pays.
  void prefetch(std::uint32_t count, const Pending& pending) const;
  // Takes from the list the items that the oldest `count` layers hold. The newest of these is asked first:
  // with an expansion of 2 or more a full layer holds more items than all the older ones together.
  void find(std::uint32_t count, Pending& pending) const;

 private:
  // Calls use(blocks) with those of the oldest `count` layers, newest first.
  template <class Use>
  void with_blocks(std::uint32_t count, const Use& use) const {
    if (younger_ != nullptr) return use(younger_->blocks().last(count));
    const Blocks blocks = first_.blocks();
    use(std::span(&blocks, count));
  }

  Layer& first_;
  const LayerList* younger_;
};

}  // namespace sepal::bloom
