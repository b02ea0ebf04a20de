#include <sepal/bloom/plan/plan_memo.hpp>

#include <algorithm>
#include <limits>

namespace sepal::bloom {

Result<LayerPlan> PlanMemo::plan(const LayerRequest& request, std::uint64_t bytes_max) {
  auto planned = plan_of_any_size(request);
  if (planned && planned->byte_count() > bytes_max)
    return fail(Errc::too_large, "the layer would exceed the memory it may take");
  return planned;
}

// Plans for any size, so that a plan that is refused for its size is not made again either. Plans outside of
// the lock: a thread that asks for a known plan does not wait for a thread that plans.
Result<LayerPlan> PlanMemo::plan_of_any_size(const LayerRequest& request) {
  {
    const MutexLock lock(mutex_);
    const auto* const known = std::ranges::find(entries_, request, &Entry::request);
    if (known != entries_.end() && known->plan.capacity > 0) return known->plan;
  }
  auto planned = plan_layer(request, std::numeric_limits<std::uint64_t>::max());
  // A refusal is not remembered. Without a limit on the size it is nearly always found before the planning.
  if (!planned) return planned;
  const MutexLock lock(mutex_);
  // Another thread may have planned the same meanwhile.
  if (std::ranges::find(entries_, request, &Entry::request) == entries_.end()) {
    entries_[next_] = {.request = request, .plan = *planned};
    next_ = (next_ + 1) % entries_max;
  }
  return planned;
}

}  // namespace sepal::bloom
