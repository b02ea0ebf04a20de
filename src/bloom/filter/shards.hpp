// The shards of a layer, and its room: how many more items the layer may take. The room is exact, and yet not
// kept in one place.
//
//     pool: room --claim--> a batch of items (what it does not use goes back)
//             \--refill--> a shard's reserve --> one item
//
// A thread that adds items one at a time would meet all other such threads at one counter. So a shard, whose
// cache line the thread has taken for its lock anyway, keeps a small reserve of room and refills it from the
// pool. The room of a layer is the pool and all reserves together, never more than its capacity less its
// items. When the pool is empty the layer looks full, although reserves may be left: the caller then sweeps
// them together. A refill takes less when the pool is small, so this happens only a few times in the life of
// a layer.
#pragma once

#include <sepal/base/prefetch.hpp>
#include <sepal/base/spin_lock.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace sepal::bloom {

struct alignas(64) Shard {
  SpinLock lock;
  std::uint32_t reserve SEPAL_GUARDED_BY(lock) = 0;
  std::atomic<std::uint64_t> item_count{0};  // Written under the lock, read without.
};

// Synchronised, except where a member says otherwise.
class Shards {
 public:
  // Nothing when the system refuses the memory.
  static std::unique_ptr<Shards> allocate(const LayerPlan& plan);
  // The memory that allocate(plan) takes.
  static std::uint64_t footprint(const LayerPlan& plan);

  [[nodiscard]] Shard& of_block(std::uint64_t block) { return shards_[block >> blocks_shift_]; }

  // Ask for a block's shard and for the pool, to write to them.
  void prefetch_of_block(std::uint64_t block) const { prefetch_to_write(&shards_[block >> blocks_shift_]); }
  void prefetch_room() const { prefetch_to_write(&pool_); }

  // Takes room for `items` items from the pool, all or none.
  [[nodiscard]] bool claim(std::uint64_t items);
  // What claim() would take now.
  [[nodiscard]] std::uint64_t room() const { return pool_.room.load(std::memory_order_relaxed); }
  void give_back(std::uint64_t items);
  // Gives the shard a reserve of at least one, or returns false.
  [[nodiscard]] bool refill(Shard& shard) SEPAL_REQUIRES(shard.lock);

  [[nodiscard]] std::uint64_t item_count() const;
  // As Layer::full(). Once true, the answer is remembered, and nothing is counted again.
  [[nodiscard]] bool full(std::uint64_t capacity);

  // Puts all reserves back into the pool. One thread at a time.
  void sweep();
  // Exclusive: as if `item_count` items of `capacity` had been added.
  void restore(std::uint64_t capacity, std::uint64_t item_count);
  // Exclusive: counts so many more items, for which room was claimed.
  void count(std::uint64_t items);

 private:
  struct alignas(64) Pool {
    std::atomic<std::uint64_t> room{0};
    std::atomic<bool> reserves_left{false};  // Some reserve may be above 0: sweep() has something to do.
    std::atomic<bool> full{false};
  };

  Shards(std::unique_ptr<Shard[]> shards, std::uint32_t shard_count, std::uint32_t blocks_shift)
      : shards_(std::move(shards)), shard_count_(shard_count), blocks_shift_(blocks_shift) {}

  std::unique_ptr<Shard[]> shards_;
  std::uint32_t shard_count_;
  std::uint32_t blocks_shift_;  // a shard is 2^blocks_shift_ blocks
  Pool pool_;
};

}  // namespace sepal::bloom
