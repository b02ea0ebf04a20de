#include <sepal/filter/plan_memo.hpp>

#include <algorithm>

namespace sepal::filter {

// Planned outside of the lock: whoever asks for what is known waits for nobody who plans.
Result<LayerPlan> PlanMemo::plan(const LayerRequest& request, std::uint64_t bytes_max) {
  {
    const MutexLock lock(mutex_);
    const auto* const known = std::ranges::find(entries_, request, &Entry::request);
    const bool remembered = known != entries_.end() && known->plan.capacity > 0;
    if (remembered && known->plan.byte_count() <= bytes_max) return known->plan;
  }
  const auto planned = plan_layer(request, bytes_max);
  if (!planned) return planned;
  const MutexLock lock(mutex_);
  // Another thread may have planned the same meanwhile.
  if (std::ranges::find(entries_, request, &Entry::request) == entries_.end()) {
    entries_[next_] = {.request = request, .plan = *planned};
    next_ = (next_ + 1) % entries_max;
  }
  return planned;
}

}  // namespace sepal::filter
