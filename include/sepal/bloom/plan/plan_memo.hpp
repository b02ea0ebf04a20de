// Remembers plans that were made: most filters of a server have one of a few sizes, and planning takes from
// microseconds to a millisecond.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sepal::bloom {

// Synchronised.
class PlanMemo {
 public:
  // As plan_layer().
  Result<LayerPlan> plan(const LayerRequest& request, std::uint64_t bytes_max);

 private:
  static constexpr std::size_t entries_max = 8;

  struct Entry {
    LayerRequest request;
    LayerPlan plan;  // its capacity is 0 where nothing is remembered
  };

  Result<LayerPlan> plan_of_any_size(const LayerRequest& request);

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  std::array<Entry, entries_max> entries_ SEPAL_GUARDED_BY(mutex_);
  std::size_t next_ SEPAL_GUARDED_BY(mutex_) = 0;  // The oldest entry, which is replaced first.
};

// With the memo; without one where it is null.
inline Result<LayerPlan> plan_layer(const LayerRequest& request, std::uint64_t bytes_max, PlanMemo* memo) {
  return memo != nullptr ? memo->plan(request, bytes_max) : plan_layer(request, bytes_max);
}

}  // namespace sepal::bloom
