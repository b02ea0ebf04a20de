// A layer: the shape of its plan, its bits, its count of items. Two ways to keep them:
//
//     small   | header: shape, lock, room, count | bits ... |      one allocation, one lock
//     large   | header: shape | Store |-->  bitmap, shards         (bitmap.hpp, shards.hpp)
//
// Millions of filters are small and hold a hundred items, so the header counts: a test holds its size.
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
#include "look_up.hpp"
#include "shards.hpp"
#include "spin_lock.hpp"

namespace sepal::filter {

enum class Added : std::uint8_t { yes, present, no_room };

// Members are shared or exclusive in the sense of filter.hpp.
class Layer {
 public:
  // With room for plan.capacity less `item_count` items. The plan is sound (layer_state.hpp). Errors:
  // out_of_memory.
  static Result<std::unique_ptr<Layer>> create(const LayerPlan& plan, std::uint64_t item_count);
  // The memory that create() takes.
  static std::uint64_t footprint(const LayerPlan& plan);

  ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  static void operator delete(void* allocated);

  // --- shared ---------------------------------------------------------------------------------------------

  [[nodiscard]] LayerPlan plan() const;
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t item_count() const;
  [[nodiscard]] const Layer* older() const { return older_.get(); }

  // As prefetch_blocks and find_items (look_up.hpp).
  void prefetch(std::span<const Fingerprint> items) const;
  std::size_t find(std::span<const Fingerprint> items, std::span<std::uint8_t> pending) const;
  [[nodiscard]] bool contains(const Fingerprint& fingerprint) const;

  // Takes room for `items` that add_claimed() will add, all or none; what remains unused is given back.
  [[nodiscard]] bool claim(std::uint64_t items);
  void give_back(std::uint64_t items);
  // True if the item was new. Then it has used one claim.
  bool add_claimed(const Fingerprint& fingerprint);
  // One item without a claim. no_room: nothing changed, and the newest layer may have room that sweep()
  // finds.
  Added add(const Fingerprint& fingerprint);

  void copy_bits(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] double fill(std::uint64_t sample_bytes_max) const;

  // --- exclusive ------------------------------------------------------------------------------------------

  // Brings together what room there is, so that claim(1) fails only when the layer is full.
  void sweep();
  [[nodiscard]] Layer* older() { return older_.get(); }
  void set_older(std::unique_ptr<Layer> older) { older_ = std::move(older); }
  void fill_bits(std::uint64_t offset, std::span<const std::byte> from);

 private:
  // What a large layer has in place of the bits that follow a small one's header.
  struct Store {
    Bitmap bitmap;
    std::unique_ptr<Shards> shards;
  };

  Layer(const LayerPlan& plan, bool small);
  static std::unique_ptr<Layer> create_small(const LayerPlan& plan);
  static std::unique_ptr<Layer> create_large(const LayerPlan& plan);

  // In a large layer the Store, in a small one the bits.
  [[nodiscard]] Store& store() const;
  [[nodiscard]] std::uint64_t* words() const;
  [[nodiscard]] std::uint64_t* block_words(std::uint64_t block) const;
  [[nodiscard]] Blocks blocks() const;
  bool set(std::uint64_t* block, const Fingerprint& fingerprint) const;

  std::uint64_t capacity_;
  double error_rate_;
  std::uint64_t block_count_;
  std::uint32_t block_bits_;
  std::uint8_t probe_count_;
  bool small_;
  SpinLock lock_;  // of a small layer; a large one has its shards'
  std::unique_ptr<Layer> older_;
  // Of a small layer, whose capacity fits. The room is never above the capacity less the items.
  std::atomic<std::uint32_t> room_{0};
  std::atomic<std::uint32_t> item_count_{0};  // Written under lock_.
};

}  // namespace sepal::filter
