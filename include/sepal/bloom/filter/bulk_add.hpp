// Adds very many items, on several threads, to a filter that no other thread adds to.
//
//     newest layer   | region 0 | region 1 | region 2 | region 3 | ...
//       batch 7                                  ->
//       batch 8                      ->
//       batch 9           ->
//
// Items come in numbered batches. A batch is sorted by the regions of the newest layer that hold its items'
// blocks, and goes through the regions in their order; no batch overtakes the one before it. So threads work
// side by side without a lock for each item, and every block sees its items in the order of the input. The
// filter becomes what one thread would make of the same items, added one after the other: the same bits,
// counts and layers.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sepal::bloom {

// Synchronised.
class BulkAdd {
 public:
  // The filter is this object's alone until the last batch is added: other threads may look items up, and do
  // nothing else.
  BulkAdd(Filter& filter, const FilterLimits& limits);

  // What a batch needs beside its items. The caller keeps it from one batch to the next, because it is
  // megabytes. Confined.
  class Workspace {
    friend class BulkAdd;
    std::vector<Fingerprint> absent_;
    std::vector<Fingerprint> sorted_;
  };

  struct Refused {
    std::uint64_t item = 0;  // the first one, counted from 0 over all batches
    Filter::Refusal why = Filter::Refusal::none;
  };
  // Batches have the numbers 0, 1, 2, ... A call waits for the batches before it, so a thread that waits for
  // this batch must not be the one to add an earlier batch. The filter grows when it must. False from the
  // first refused item on: nothing is added any more. Fingerprints are made with the filter's seed. A batch
  // of some ten thousand is worth its sorting.
  [[nodiscard]] bool add(std::uint32_t batch, std::span<const Fingerprint> items, Workspace& workspace);

  // Only when no batch is under way.
  [[nodiscard]] const std::optional<Refused>& refused() const { return refused_; }

 private:
  // Lets batches pass one after the other. A thread that waits here takes no processor time.
  class alignas(64) Turn {
   public:
    void wait_for(std::uint32_t batch) const {
      // Pairs with pass(): this batch sees what the batches before it did here.
      for (auto next = next_.load(std::memory_order_acquire); next != batch;
           next = next_.load(std::memory_order_acquire))
        next_.wait(next, std::memory_order_acquire);
    }
    // Sequentially consistent, so that the store and notify_all()'s read of the waiter count are in one
    // order. libstdc++ wakes no thread when it sees no waiter. Behind a mere release store it could look
    // before the number is out, while a waiter still sees the old number and falls asleep.
    void pass(std::uint32_t batch) {
      next_.store(batch + 1, std::memory_order_seq_cst);
      next_.notify_all();
    }

   private:
    std::atomic<std::uint32_t> next_{0};
  };

  static constexpr std::size_t region_count = 64;

  // What a batch adds region by region, and where to.
  struct Claim {
    std::span<const Fingerprint> items;
    Layer* layer = nullptr;
    std::uint64_t room = 0;          // claimed in the layer
    std::uint32_t older_layers = 0;  // not searched yet
  };
  Claim make_claim(std::uint32_t batch, std::span<const Fingerprint> items, Workspace& workspace);
  void add_one_by_one(std::span<const Fingerprint> items);
  std::uint64_t add_by_region(std::uint32_t batch, const Claim& claim, Workspace& workspace);

  Filter& filter_;
  const FilterLimits limits_;
  // The batch whose turn it is at entry_ owns the members between entry_ and regions_.
  Turn entry_;
  std::uint64_t items_before_ = 0;
  std::optional<Refused> refused_;
  std::array<Turn, region_count> regions_;
  Turn end_;
};

}  // namespace sepal::bloom
