// A layer: the shape of its plan, its bits, its count of items. Two ways to keep them:
//
//     small   | header: shape, lock, room, count | bits ... |      in one place, one lock
//     large   | header | Store: shape |-->  bitmap, shards         (bitmap.hpp, shards.hpp)
//
// Millions of filters are small and hold a hundred items, so the header counts: the first layer stands right
// behind its filter's own header, in the same allocation, and a test holds the sizes. The error rate that a
// layer was planned for is not here: it follows from the filter's and the layer's index (layer_state.hpp).
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/base/result.hpp>
#include <sepal/filter/layer_plan.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bitmap.hpp"
#include "kernels.hpp"
#include "shards.hpp"
#include "spin_lock.hpp"

namespace sepal::filter {

enum class Added : std::uint8_t { yes, present, no_room };

// Members are shared or exclusive in the sense of filter.hpp.
class Layer {
 public:
  // With room for plan.capacity less `item_count` items, in an allocation of its own. The plan is sound
  // (layer_state.hpp). Errors: out_of_memory.
  static Result<std::unique_ptr<Layer>> create(const LayerPlan& plan, std::uint64_t item_count,
                                               Paging paging);
  // The same in memory of the caller's: place_bytes(plan) zeroed bytes, aligned as a Layer is. Null when the
  // system refuses the rest. Whoever owns the memory ends the layer by its destructor.
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

  // The error rate is left to the filter, which knows it.
  [[nodiscard]] LayerPlan plan() const;
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t identity() const { return small_ ? 0 : store().identity; }
  [[nodiscard]] std::uint64_t item_count() const;
  // It holds its capacity, for ever. May say false while adds are running that make it true.
  [[nodiscard]] bool full() const {
    return small_ ? item_count() == capacity_ : store().shards->full(capacity_);
  }

  // No item of it was counted, as far as this thread knows: others may have added some.
  [[nodiscard]] bool small_and_empty() const {
    return small_ && item_count_.load(std::memory_order_relaxed) == 0;
  }

  // What the kernels look in and set.
  [[nodiscard]] Blocks blocks() const;
  [[nodiscard]] bool contains(const Fingerprint& fingerprint) const;

  // Takes room for `items` that add_claimed() will add, all or none; what remains unused is given back.
  [[nodiscard]] bool claim(std::uint64_t items);
  void give_back(std::uint64_t items);
  // Asks for what both write to, as other threads do.
  void prefetch_room() const;
  // It has pieces, and pages that may never have been touched: whoever is about to add an item calls touch()
  // before looking it up.
  [[nodiscard]] bool fresh() const { return fresh_.load(std::memory_order_relaxed); }
  // Of a fresh layer: writes to the item's block, and changes nothing. A page whose first touch is a read
  // gets the system's page of zeros, and at the write behind it another: then every core that runs this
  // process has to be told.
  void touch(const Fingerprint& fingerprint) const;
  // Asks for what add_claimed() of this item will write to. Other threads write there as well, so it is
  // seldom in this core's cache.
  void prefetch_for_add(const Fingerprint& fingerprint) const;
  // Whether the blocks may be far, in memory of their own, and what lines an item's has.
  [[nodiscard]] bool is_far() const;
  void collect_lines(const Fingerprint& fingerprint, LinesAhead& lines) const;
  // True if the item was new. Then it has used one claim.
  bool add_claimed(const Fingerprint& fingerprint);
  // Adds the first `count` items, for which room is claimed, while nobody else adds to their blocks; asks for
  // the blocks of those behind them from memory. Returns how many were new, and so used a claim.
  std::uint64_t add_run(std::span<const Fingerprint> items, std::size_t count);
  // One item without a claim. no_room: nothing changed, and the newest layer may have room that sweep()
  // finds.
  Added add(const Fingerprint& fingerprint);

  void copy_bits(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] double fill(std::uint64_t sample_bytes_max) const;
  [[nodiscard]] std::uint64_t piece_count() const { return small_ ? 0 : store().bitmap.piece_count(); }
  // Of a layer that has pieces.
  [[nodiscard]] bool in_use(std::uint64_t piece) const { return store().bitmap.in_use(piece); }
  void move_to_huge_page(std::uint64_t piece) const;

  // --- exclusive ------------------------------------------------------------------------------------------

  // Brings together what room there is, so that claim(1) fails only when the layer is full.
  void sweep();
  void fill_bits(std::uint64_t offset, std::span<const std::byte> from);
  // As Filter::add_recorded().
  [[nodiscard]] bool add_recorded(std::span<const Fingerprint> fingerprints);

 private:
  // What a large layer has in place of the bits that follow a small one's header.
  struct Store {
    Bitmap bitmap;
    std::unique_ptr<Shards> shards;
    Blocks blocks;
    std::uint64_t identity;
  };

  Layer(const LayerPlan& plan, std::uint64_t item_count);  // small
  Layer(const LayerPlan& plan, Store store, bool fresh);   // large

  // In a large layer the Store, in a small one the bits.
  [[nodiscard]] Store& store() const;

  std::uint64_t capacity_;
  // Of a small layer, whose numbers fit. The room is never above the capacity less the items.
  std::atomic<std::uint32_t> room_{0};
  std::atomic<std::uint32_t> item_count_{0};  // Written under lock_.
  std::uint16_t block_count_ = 0;
  std::uint16_t block_words_ = 0;
  std::uint8_t probe_count_ = 0;
  SpinLock lock_;  // A large one has its shards'.
  bool small_;
  mutable std::atomic<bool> fresh_{false};  // Until its last piece is moved.
};

// A filter's layers by index, 0 being the oldest. Valid until one is appended.
class LayerStack {
 public:
  LayerStack(Layer& first, std::span<const std::unique_ptr<Layer>> younger)
      : first_(first), younger_(younger) {}

  [[nodiscard]] std::uint32_t size() const { return 1 + static_cast<std::uint32_t>(younger_.size()); }
  [[nodiscard]] Layer& operator[](std::uint32_t index) const {
    return index == 0 ? first_ : *younger_[index - 1];
  }
  [[nodiscard]] Layer& newest() const { return (*this)[size() - 1]; }

  // Of the oldest `count` layers: asks for the items' blocks from memory, where that pays.
  void prefetch(std::uint32_t count, const Pending& pending) const;
  // Of the oldest `count` layers: takes from the list what they hold. The newest is asked first: with an
  // expansion of 2 or more a full one holds more items than all the older ones together.
  void find(std::uint32_t count, Pending& pending) const;

 private:
  Layer& first_;
  std::span<const std::unique_ptr<Layer>> younger_;
};

}  // namespace sepal::filter
