// What becomes of a filter that forgets in an image, and how images and records make it again.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/window/window_filter.hpp>

#include <algorithm>
#include <utility>

#include "bloom/window/entries.hpp"
#include "bloom/window/window_layer.hpp"

namespace sepal::bloom {

// A reader has the layers of its instant.
class WindowFilter::FrozenLayers final : public value::Still {
 public:
  explicit FrozenLayers(std::vector<std::shared_ptr<WindowLayer>> layers) : layers_(std::move(layers)) {}

 private:
  std::vector<std::shared_ptr<WindowLayer>> layers_;
};

std::unique_ptr<value::Still> WindowFilter::freeze(std::vector<std::uint64_t>& numbers) const {
  const std::uint32_t lanes = options_.lanes();
  numbers.push_back(newest_generation());
  numbers.push_back(change_count());
  for (std::uint32_t lane = 0; lane < lanes; ++lane) numbers.push_back(items_of(lane));
  for (const auto& layer : layers_) {
    numbers.push_back(reinterpret_cast<std::uintptr_t>(layer.get()));
    for (std::uint32_t lane = 0; lane < lanes; ++lane)
      numbers.push_back(std::min(items_of_lane_max, layer->taken(lane)));
  }
  return std::make_unique<FrozenLayers>(layers_);
}

Result<WindowFilterPtr> WindowFilter::restore(const Restored& state, const value::Limits& limits,
                                              value::FilledBy filled_by) {
  SEPAL_ASSERT(!state.layers.empty(), "a filter has at least one layer");
  WindowFilterPtr filter(new WindowFilter(state.options));
  std::uint64_t bytes = filter->byte_count();
  const std::uint32_t lanes = state.options.lanes();
  for (const LayerState& layer : state.layers) {
    bytes += WindowLayer::footprint(layer.plan, lanes);
    if (bytes > limits.bytes_max) return fail(Errc::too_large);
    auto made = WindowLayer::create(layer.plan, layer.number, lanes,
                                    filled_by == value::FilledBy::load ? Paging::huge : Paging::small);
    if (!made) return made.error();
    for (std::uint32_t lane = 0; lane < lanes; ++lane) (*made)->set_taken(lane, layer.taken[lane]);
    filter->layers_.push_back(std::move(*made));
  }
  filter->next_number_ = state.layers.back().number + 1;
  filter->share_out_stripes();
  filter->newest_.store(state.newest, std::memory_order_relaxed);
  filter->changes_.store(state.changes, std::memory_order_relaxed);
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    filter->items_[lane].store(state.items[lane], std::memory_order_relaxed);
  return filter;
}

void WindowFilter::fill_body(std::uint64_t offset, std::span<const std::byte> from) {
  for (const auto& layer : layers_) {
    if (offset >= layer->byte_count()) {
      offset -= layer->byte_count();
      continue;
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(layer->byte_count() - offset, from.size()));
    layer->fill(offset, from.first(count));
    from = from.subspan(count);
    if (from.empty()) return;
    offset = 0;
  }
  SEPAL_ASSERT(from.empty(), "a filter is filled with more than it has");
}

void WindowFilter::complete() {
  const LiveStamps live(newest_generation(), options_.lanes());
  for (const auto& layer : layers_) layer->keep_live(live);
}

bool WindowFilter::repeat(std::span<const Fingerprint> records) {
  LiveStamps live(newest_generation(), options_.lanes());
  for (const Fingerprint& record : records) {
    const WindowEntry entry = entry_in(record, newest_generation());
    if (entry.renews > options_.generations || entry.generation < live.lanes ||
        entry.generation > generation_number_max)
      return false;
    changes_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t newest = reach(entry.generation);
    // It has been forgotten.
    if (newest - entry.generation >= live.lanes) continue;
    if (live.generation != entry.generation) live = LiveStamps(entry.generation, live.lanes);
    const auto layer = std::ranges::find_if(
        layers_, [&](const auto& each) { return layer_number_of(each->number()) == entry.layer; });
    if (layer == layers_.end()) return false;
    (*layer)->set(entry.hash, live);
    (*layer)->take(live.current, 1);
    count_items(live.current, 1);
    if (entry.renews != 0 && newest - (entry.generation - entry.renews) < live.lanes)
      items_[(entry.generation - entry.renews) % live.lanes].fetch_sub(1, std::memory_order_relaxed);
  }
  return true;
}

}  // namespace sepal::bloom
