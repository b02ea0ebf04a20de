// Adding very many items to a filter that nobody else knows yet, on several threads.
//
//     newest layer   | region 0 | region 1 | region 2 | region 3 | ...
//       batch 7                                  ->
//       batch 8                      ->
//       batch 9           ->
//
// Items come in numbered batches. Each is sorted by the region of the newest layer that holds its items'
// blocks, and goes through the regions in their order; no batch overtakes the one before it. So threads work
// side by side without a lock on an item's way, and every block sees its items in the order of the input. The
// filter becomes what one thread makes of the same items added one after the other: the same bits, counts
// and layers.
#pragma once

#include <sepal/base/hash.hpp>
#include <sepal/filter/filter.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sepal::filter {

// Synchronised.
class BulkAdd {
 public:
  // Until the last batch is added the filter is this one's alone; look-ups may go on, all else may not.
  BulkAdd(Filter& filter, const FilterLimits& limits);

  // What a batch needs beside its items: kept from one to the next, for it is megabytes. Confined.
  class Workspace {
    friend class BulkAdd;
    std::vector<Fingerprint> absent_;
    std::vector<Fingerprint> sorted_;
  };

  struct Refused {
    std::uint64_t item = 0;  // the first, counted from 0 over all batches
    Filter::Refusal why = Filter::Refusal::none;
  };
  // Batches have the numbers 0, 1, 2, ... Waits for those before, so every number must be added by somebody
  // who does not wait for this one. The filter grows when it must. False from the first item on that is
  // refused: nothing is added any more. Fingerprints are of the filter's seed; a batch of some ten thousand
  // is worth its sorting.
  [[nodiscard]] bool add(std::uint32_t batch, std::span<const Fingerprint> items, Workspace& workspace);

  // When no batch is under way.
  [[nodiscard]] const std::optional<Refused>& refused() const { return refused_; }

 private:
  // Whose turn it is: batches pass one after the other. Waiting costs no processor.
  class alignas(64) Turn {
   public:
    void wait_for(std::uint32_t batch) const {
      // Pairs with pass(): what the batches before did here is seen.
      for (auto next = next_.load(std::memory_order_acquire); next != batch;
           next = next_.load(std::memory_order_acquire))
        next_.wait(next, std::memory_order_acquire);
    }
    // In one order with what notify_all() reads: libstdc++ wakes nobody where it sees no waiter, and behind a
    // mere release it may look before the number is out, while a waiter still sees the old one and sleeps.
    void pass(std::uint32_t batch) {
      next_.store(batch + 1, std::memory_order_seq_cst);
      next_.notify_all();
    }

   private:
    std::atomic<std::uint32_t> next_{0};
  };

  static constexpr std::size_t region_count = 64;

  // What a batch has to add by itself, and where to.
  struct Claim {
    std::span<const Fingerprint> items;
    Layer* layer = nullptr;
    std::uint64_t room = 0;          // that was taken in the layer
    std::uint32_t older_layers = 0;  // that were not asked yet
  };
  Claim make_claim(std::uint32_t batch, std::span<const Fingerprint> items, Workspace& workspace);
  void add_one_by_one(std::span<const Fingerprint> items);
  std::uint64_t add_by_region(std::uint32_t batch, const Claim& claim, Workspace& workspace);

  Filter& filter_;
  const FilterLimits limits_;
  // Whoever's turn it is to enter owns what stands between here and the regions.
  Turn entry_;
  std::uint64_t items_before_ = 0;
  std::optional<Refused> refused_;
  std::array<Turn, region_count> regions_;
  Turn end_;
};

}  // namespace sepal::filter
