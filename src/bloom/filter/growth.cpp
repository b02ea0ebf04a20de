// Growing, while other threads add to the filter and look items up in it.
//
// An add claims its room before it sets a bit, and counts the item behind its bits. So when the count of the
// newest layer has reached its capacity, no add holds a claim, and none will get one: the bits of the layer
// are final. Only then another layer is published. A thread that has read the list before that finds no room
// in the old layer, and looks again.
#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <limits>
#include <utility>

#include "bloom/filter/layer.hpp"
#include "bloom/filter/layer_state.hpp"
#include "bloom/filter/stack.hpp"

namespace sepal::bloom {

std::uint32_t Filter::foreign_layers() const {
  if (hash() == ItemHash::xxh3) return 0;
  if (hash() == ItemHash::xxh3_above_bitmap) return 1;
  const LayerStack layers = stack();
  std::uint32_t count = 0;
  while (count < layers.size() && layers[count].blocks().anywhere()) ++count;
  return count;
}

// Its capacity is 0 when there can be no next layer.
LayerRequest Filter::next_layer() const {
  const LayerStack layers = stack();
  const auto capacity = checked_multiply(layers.newest().capacity(), growth(options(), layers.size()));
  return {.capacity = capacity.value_or(0),
          .error_rate =
              layer_error_rate(options(), {.index = layers.size(), .foreign_layers = foreign_layers()})};
}

void Filter::plan_growth(PlanMemo& plans) const {
  // A layer that cannot be planned is refused when it is needed.
  if (expansion_ != 0) (void)plans.plan(next_layer(), std::numeric_limits<std::uint64_t>::max());
}

Filter::Room Filter::find_room() {
  Layer& newest = stack().newest();
  // Else a filter would wait for room that no add has claimed.
  newest.sweep();
  if (newest.room() > 0) return Room::some;
  return newest.full() ? Room::none : Room::claimed;
}

std::variant<LayerPlan, Filter::Refusal> Filter::plan_next(const FilterLimits& limits,
                                                           PlanMemo* plans) const {
  if (expansion_ == 0) return Refusal::full;
  if (layer_count() >= limits.layers_max) return Refusal::layer_limit;
  const LayerRequest request = next_layer();
  const std::uint64_t bytes_held = bytes_with_place();
  // The comparison comes before the subtraction below, which would wrap.
  if (request.capacity == 0 || bytes_held > limits.bytes_max) return Refusal::too_large;
  const std::uint64_t bytes_max = limits.bytes_max - bytes_held;
  const auto plan = plan_layer(request, bytes_max, plans);
  if (!plan || Layer::footprint(*plan) > bytes_max) return Refusal::too_large;
  return *plan;
}

Filter::Refusal Filter::growth_refusal(const FilterLimits& limits) const {
  const auto planned = plan_next(limits, nullptr);
  const auto* const refusal = std::get_if<Refusal>(&planned);
  return refusal == nullptr ? Refusal::none : *refusal;
}

Filter::Refusal Filter::grow(const FilterLimits& limits, PlanMemo* plans, Limbo& limbo, const Tell& tell) {
  SEPAL_ASSERT(stack().newest().full(), "a filter grows above a layer that may still change");
  const auto planned = plan_next(limits, plans);
  if (const auto* const refusal = std::get_if<Refusal>(&planned)) return *refusal;
  const auto& plan = std::get<LayerPlan>(planned);
  auto layer = Layer::create(plan, 0, Paging::small);
  if (!layer) return Refusal::out_of_memory;
  auto list = LayerList::create(younger_.load(std::memory_order_relaxed), first(), **layer);
  if (list == nullptr) return Refusal::out_of_memory;
  if (tell) tell(plan);
  publish(std::move(*layer), std::move(list), limbo);
  return Refusal::none;
}

std::uint64_t Filter::bytes_with_place() const {
  SEPAL_ASSERT(byte_count() >= LayerList::footprint(layer_count() - 1),
               "the list of layers takes more memory than the filter");
  return byte_count() - LayerList::footprint(layer_count() - 1) + LayerList::footprint(layer_count());
}

// For a filter that no other thread knows.
Result<void> Filter::append(std::unique_ptr<Layer> layer) {
  auto list = LayerList::create(younger_.load(std::memory_order_relaxed), first(), *layer);
  if (list == nullptr) return fail(Errc::out_of_memory, "the system refused the memory of a list of layers");
  Limbo at_once(nullptr);
  publish(std::move(layer), std::move(list), at_once);
  return {};
}

// The list before has one place less: there are at most a few dozen layers, and their memory is accounted
// for.
void Filter::publish(std::unique_ptr<Layer> layer, std::unique_ptr<LayerList> list, Limbo& limbo) {
  SEPAL_ASSERT(layer != nullptr && list != nullptr && list->layers().back() == layer.get(),
               "a filter grows by another layer than its list has");
  // The usage is the filter's, and its newest layer tells it. After a layer of RedisBloom with more bits than
  // its items need, the next one may be small, and tells none.
  layer.release()->share_usage(stack().newest());
  LayerList* const before = younger_.exchange(list.release(), std::memory_order_release);
  if (before != nullptr) limbo.retire(before);
}

}  // namespace sepal::bloom
