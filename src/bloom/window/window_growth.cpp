// How a filter that forgets grows: by one layer, when its newest generation has no place left.
#include <sepal/base/checked.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <algorithm>

#include "bloom/window/entries.hpp"
#include "bloom/window/milliseconds.hpp"
#include "bloom/window/window_layer.hpp"

namespace sepal::bloom {
namespace {

constexpr std::uint64_t growth_pause_milliseconds = 1000;

}  // namespace

bool WindowFilter::full(WallTime now) const {
  const std::uint64_t generation = generation_at(now);
  // One that has not begun has all of its places.
  if (generation != newest_generation()) return false;
  return newest_layer().taken(static_cast<std::uint32_t>(generation % options_.lanes())) >=
         newest_layer().plan().capacity;
}

bool WindowFilter::may_grow(WallTime now) const {
  if (options_.expansion == 0 || options_.of_last()) return false;
  const std::uint64_t pause_ends = may_grow_at_.load(std::memory_order_relaxed);
  // A clock that went back ends the pause as well.
  return milliseconds_of(now) >= pause_ends || pause_ends - milliseconds_of(now) > growth_pause_milliseconds;
}

// For each age of a lane: the rates of the lanes that will then still be live, as planned.
std::vector<double> WindowFilter::rates_by_age() const {
  const LiveStamps live(newest_generation(), options_.lanes());
  std::vector<double> rates(live.lanes);
  for (const auto& layer : layers_) {
    for (std::uint32_t lane = 0; lane < live.lanes; ++lane) {
      if (layer->taken(lane) == 0) continue;
      const std::uint64_t age = live.generation - live.generation_of(lane);
      for (std::uint64_t later = 0; age + later < live.lanes; ++later)
        rates[later] += layer->plan().error_rate;
    }
  }
  return rates;
}

// Records have the low bits of a number alone.
bool WindowFilter::has_layer_number() const {
  return next_number_ <= window_layer_number_max &&
         next_number_ - layers_.front()->number() < std::uint64_t{1} << entry_layer_bits;
}

// As many items as the newest layer has, times the expansion. What a generation has already counts as well:
// else a filter with an expansion of 1 would grow layer after layer.
std::uint64_t WindowFilter::next_capacity() const {
  const auto lane = static_cast<std::uint32_t>(newest_generation() % options_.lanes());
  std::uint64_t taken = 0;
  for (const auto& layer : layers_) taken += layer->taken(lane);
  const auto expanded = checked_multiply(newest_layer().plan().capacity, options_.expansion);
  return expanded ? std::max(*expanded, taken) : 0;
}

std::variant<LanePlan, Filter::Refusal> WindowFilter::plan_next(const value::Limits& limits) const {
  if (options_.expansion == 0 || options_.of_last()) return Refusal::full;
  if (layers_.size() >= limits.layers_max || !has_layer_number()) return Refusal::layer_limit;
  const std::uint64_t items = next_capacity();
  const std::uint64_t held = byte_count();
  if (items == 0 || held > limits.bytes_max) return Refusal::too_large;
  const auto plan = bloom::plan_growth(options_, items, rates_by_age(), limits.bytes_max - held);
  if (!plan || WindowLayer::footprint(*plan, options_.lanes()) > limits.bytes_max - held)
    return Refusal::too_large;
  return *plan;
}

Filter::Refusal WindowFilter::growth_refusal(const value::Limits& limits) const {
  const auto planned = plan_next(limits);
  const auto* const refusal = std::get_if<Refusal>(&planned);
  return refusal == nullptr ? Refusal::none : *refusal;
}

Filter::Refusal WindowFilter::grow(WallTime now, const value::Limits& limits,
                                   const std::function<void(std::uint64_t, const LanePlan&)>& tell) {
  const auto refused = [&](Refusal refusal) {
    refusal_.store(refusal, std::memory_order_relaxed);
    may_grow_at_.store(milliseconds_of(now) + growth_pause_milliseconds, std::memory_order_relaxed);
    return refusal;
  };
  const auto planned = plan_next(limits);
  if (const auto* const refusal = std::get_if<Refusal>(&planned)) return refused(*refusal);
  const auto& plan = std::get<LanePlan>(planned);
  auto layer = WindowLayer::create(plan, next_number_, options_.lanes(), Paging::small);
  if (!layer) return refused(Refusal::out_of_memory);
  if (tell) tell(newest_generation(), plan);
  layers_.push_back(std::move(*layer));
  ++next_number_;
  may_grow_at_.store(0, std::memory_order_relaxed);
  share_out_stripes();
  return Refusal::none;
}

Result<void> WindowFilter::append_layer(std::uint64_t generation, const LanePlan& plan,
                                        const value::Limits& limits) {
  if (generation > generation_number_max) return fail(Errc::out_of_range);
  (void)reach(generation);
  (void)drop_old_layers();
  const std::uint64_t held = byte_count();
  if (layers_.size() >= limits.layers_max || !has_layer_number()) return fail(Errc::layer_limit);
  if (held > limits.bytes_max || WindowLayer::footprint(plan, options_.lanes()) > limits.bytes_max - held)
    return fail(Errc::too_large);
  auto layer = WindowLayer::create(plan, next_number_, options_.lanes(), Paging::huge);
  if (!layer) return layer.error();
  layers_.push_back(std::move(*layer));
  ++next_number_;
  share_out_stripes();
  return {};
}

}  // namespace sepal::bloom
