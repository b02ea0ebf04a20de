// Adding. The newest layer's room is claimed before anything is set, so that a batch is added as a whole or
// not at all and no layer ever holds more than its capacity; what was claimed for items that turn out to be
// present is given back. Under the shard's lock an item is new if it changes a bit, and only one of many adds
// can be the one that changes the last.
//
// Batches. The items of a window are hashed, and their blocks in all layers asked for from memory, before the
// window ahead of it is tested: the waits for memory overlap with each other and with the work.
#include <sepal/base/checked.hpp>
#include <sepal/filter/filter.hpp>

#include <algorithm>
#include <array>
#include <numeric>

#include "heap_bytes.hpp"
#include "layer.hpp"
#include "layer_state.hpp"

namespace sepal::filter {
namespace {

// More would ask for more lines than a core fetches at once.
constexpr std::size_t window_items_max = 16;

// What std::make_shared puts before the filter: a table pointer and two counts.
constexpr std::uint64_t shared_bytes = 16;

constexpr std::uint64_t own_footprint = heap_footprint(shared_bytes + sizeof(Filter));

// Some items, hashed, their blocks on the way.
class Window {
 public:
  // The first window_items_max of `items`.
  void load(std::span<const std::string_view> items, std::uint64_t seed, const Layer& newest) {
    count_ = std::min(items.size(), window_items_max);
    for (std::size_t i = 0; i < count_; ++i) fingerprints_[i] = fingerprint_of(items[i], seed);
    for (const Layer* layer = &newest; layer != nullptr; layer = layer->older())
      layer->prefetch(fingerprints());
  }

  [[nodiscard]] std::span<const Fingerprint> fingerprints() const {
    return std::span(fingerprints_).first(count_);
  }

  // found[i] says whether any layer knows the item. Newest first: with an expansion of 2 or more a full
  // newest layer holds more items than all the older ones together, so most hits end there.
  void find(const Layer& newest, std::span<bool> found) const {
    std::array<std::uint8_t, window_items_max> indices;
    std::span<std::uint8_t> pending = std::span(indices).first(count_);
    std::iota(pending.begin(), pending.end(), std::uint8_t{0});
    for (const Layer* layer = &newest; layer != nullptr && !pending.empty(); layer = layer->older())
      pending = pending.first(layer->find(fingerprints(), pending));
    std::ranges::fill(found, true);
    for (const std::uint8_t index : pending) found[index] = false;
  }

 private:
  std::size_t count_ = 0;
  std::array<Fingerprint, window_items_max> fingerprints_;
};

// Calls visit(window, at) for all items, a window after the other, `at` being the index of its first. While
// one is looked up, the blocks of the next are on their way.
template <class Visit>
void for_each_window(std::span<const std::string_view> items, std::uint64_t seed, const Layer& newest,
                     const Visit& visit) {
  std::array<Window, 2> windows;
  windows[0].load(items, seed, newest);
  for (std::size_t at = 0, turn = 0; at < items.size(); at += window_items_max, turn ^= 1) {
    const std::size_t next = std::min(at + window_items_max, items.size());
    windows[turn ^ 1].load(items.subspan(next), seed, newest);
    visit(windows[turn], at);
  }
}

Result<LayerPlan> plan_layer_of(const FilterOptions& options, std::uint32_t layer_index,
                                std::uint64_t capacity, std::uint64_t bytes_max) {
  const double share = options.scaling() ? layer_rate_share(layer_index) : 1;
  const double error_rate = std::max(std::min(options.error_rate, error_rate_max) * share, error_rate_min);
  return plan_layer({.capacity = capacity, .error_rate = error_rate}, bytes_max);
}

Error over_limit() {
  return fail(Errc::too_large, "the filter would exceed the memory it may take");
}

// The first layer's plan, checked against the limits with all that comes with it.
Result<LayerPlan> plan_first_layer(const FilterOptions& options, const FilterLimits& limits) {
  if (!is_sound(options)) return fail(Errc::out_of_range, "an option of the filter is out of its range");
  const auto plan = plan_layer_of(options, 0, options.capacity, limits.bytes_max);
  if (!plan) return plan;
  if (own_footprint + Layer::footprint(*plan) > limits.bytes_max) return over_limit();
  return plan;
}

}  // namespace

LayerPlan LayerView::plan() const {
  return layer_->plan();
}
std::uint64_t LayerView::item_count() const {
  return layer_->item_count();
}
void LayerView::copy_bits(std::uint64_t offset, std::span<std::byte> to) const {
  layer_->copy_bits(offset, to);
}
double LayerView::fill(std::uint64_t sample_bytes_max) const {
  return layer_->fill(sample_bytes_max);
}

Filter::Filter(OnlyHere, const FilterOptions& options) : options_(options) {}
Filter::~Filter() = default;

Result<std::shared_ptr<Filter>> Filter::create(const FilterOptions& options, const FilterLimits& limits) {
  const auto plan = plan_first_layer(options, limits);
  if (!plan) return plan.error();
  auto layer = Layer::create(*plan, 0);
  if (!layer) return layer.error();
  auto filter = std::make_shared<Filter>(OnlyHere(), options);
  filter->newest_ = std::move(*layer);
  return filter;
}

Result<std::uint64_t> Filter::planned_bytes(const FilterOptions& options, const FilterLimits& limits) {
  const auto plan = plan_first_layer(options, limits);
  if (!plan) return plan.error();
  return own_footprint + Layer::footprint(*plan);
}

Result<std::shared_ptr<Filter>> Filter::restore(const FilterOptions& options,
                                                std::span<const LayerState> layers,
                                                const FilterLimits& limits) {
  if (layers.size() > limits.layers_max) return fail(Errc::too_large, "more layers than a filter may have");
  if (!is_sound(options, layers)) return fail(Errc::out_of_range, "the layers are not those of a filter");
  std::uint64_t bytes = own_footprint;
  for (const LayerState& state : layers) {
    // The bits of all layers are counted in 64 bits (is_sound), so their bytes and small headers do not wrap.
    bytes += Layer::footprint(state.plan);
    if (bytes > limits.bytes_max) return over_limit();
  }
  auto filter = std::make_shared<Filter>(OnlyHere(), options);
  for (const LayerState& state : layers) {
    auto layer = Layer::create(state.plan, state.item_count);
    if (!layer) return layer.error();
    (*layer)->set_older(std::move(filter->newest_));
    filter->newest_ = std::move(*layer);
  }
  return filter;
}

void Filter::fill_bits(std::uint32_t layer_index, std::uint64_t offset, std::span<const std::byte> from) {
  SEPAL_ASSERT(layer_index < layer_count(), "bits are filled into a layer that is there");
  Layer* layer = newest_.get();
  for (std::uint32_t i = layer_count() - 1; i > layer_index; --i) layer = layer->older();
  layer->fill_bits(offset, from);
}

bool Filter::known(const Fingerprint& fingerprint) const {
  for (const Layer* layer = newest_.get(); layer != nullptr; layer = layer->older())
    if (layer->contains(fingerprint)) return true;
  return false;
}

void Filter::contains(std::span<const std::string_view> items, std::span<bool> present) const {
  SEPAL_ASSERT(items.size() == present.size(), "there is one answer for each item");
  // One item is tested at once: there is nothing to overlap its wait with, but between layers.
  if (items.size() == 1 && newest_->older() == nullptr) {
    present[0] = newest_->contains(fingerprint_of(items[0], options_.seed));
    return;
  }
  for_each_window(items, options_.seed, *newest_, [&](const Window& window, std::size_t at) {
    window.find(*newest_, present.subspan(at, window.fingerprints().size()));
  });
}

bool Filter::try_add_one(std::string_view item, bool& added) {
  const Fingerprint fingerprint = fingerprint_of(item, options_.seed);
  added = false;
  if (known(fingerprint)) return true;
  const Added outcome = newest_->add(fingerprint);
  added = outcome == Added::yes;
  return outcome != Added::no_room;
}

// Returns how many of the claims were used.
std::uint64_t Filter::add_claimed(std::span<const std::string_view> items, std::span<bool> added) {
  std::uint64_t used = 0;
  for_each_window(items, options_.seed, *newest_, [&](const Window& window, std::size_t at) {
    const std::span<const Fingerprint> fingerprints = window.fingerprints();
    const std::span<bool> outcomes = added.subspan(at, fingerprints.size());
    window.find(*newest_, outcomes);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      // The newest layer tests again: the item may stand twice in one window.
      outcomes[i] = !outcomes[i] && newest_->add_claimed(fingerprints[i]);
      used += outcomes[i] ? 1 : 0;
    }
  });
  return used;
}

bool Filter::try_add(std::span<const std::string_view> items, std::span<bool> added) {
  SEPAL_ASSERT(items.size() == added.size(), "there is one answer for each item");
  if (items.size() == 1) return try_add_one(items[0], added[0]);
  std::uint64_t claimed = items.size();
  if (!newest_->claim(claimed)) {
    // Room for the new ones will do.
    contains(items, added);
    claimed = static_cast<std::uint64_t>(std::count(added.begin(), added.end(), false));
    if (!newest_->claim(claimed)) return false;
  }
  newest_->give_back(claimed - add_claimed(items, added));
  return true;
}

Filter::AddOutcome Filter::add_alone(std::string_view item, const FilterLimits& limits) {
  const Fingerprint fingerprint = fingerprint_of(item, options_.seed);
  if (known(fingerprint)) return {};
  newest_->sweep();
  if (!newest_->claim(1)) {
    const Refusal refusal = grow(limits);
    if (refusal != Refusal::none) return {.added = false, .refusal = refusal};
    const bool claimed = newest_->claim(1);
    SEPAL_ASSERT(claimed, "a new layer has room");
  }
  const bool added = newest_->add_claimed(fingerprint);
  SEPAL_ASSERT(added, "an item that no layer knows changes a bit");
  return {.added = true, .refusal = Refusal::none};
}

Filter::Refusal Filter::grow(const FilterLimits& limits) {
  if (!options_.scaling()) return Refusal::full;
  const std::uint32_t layer_index = layer_count();
  if (layer_index >= limits.layers_max) return Refusal::layer_limit;
  const auto capacity = checked_multiply(newest_->capacity(), options_.expansion);
  const std::uint64_t held_bytes = byte_count();
  if (!capacity || held_bytes > limits.bytes_max) return Refusal::too_large;
  const std::uint64_t bytes_max = limits.bytes_max - held_bytes;
  const auto plan = plan_layer_of(options_, layer_index, *capacity, bytes_max);
  if (!plan || Layer::footprint(*plan) > bytes_max) return Refusal::too_large;
  auto layer = Layer::create(*plan, 0);
  if (!layer) return Refusal::out_of_memory;
  (*layer)->set_older(std::move(newest_));
  newest_ = std::move(*layer);
  return Refusal::none;
}

std::uint64_t Filter::item_count() const {
  std::uint64_t count = 0;
  for (const Layer* layer = newest_.get(); layer != nullptr; layer = layer->older())
    count += layer->item_count();
  return count;
}

std::uint64_t Filter::capacity() const {
  std::uint64_t sum = 0;
  for (const Layer* layer = newest_.get(); layer != nullptr; layer = layer->older()) sum += layer->capacity();
  return sum;
}

std::uint32_t Filter::layer_count() const {
  std::uint32_t count = 0;
  for (const Layer* layer = newest_.get(); layer != nullptr; layer = layer->older()) ++count;
  return count;
}

std::uint64_t Filter::byte_count() const {
  std::uint64_t bytes = own_footprint;
  for (const Layer* layer = newest_.get(); layer != nullptr; layer = layer->older())
    bytes += Layer::footprint(layer->plan());
  return bytes;
}

std::vector<LayerView> Filter::layers() const {
  std::vector<LayerView> views;
  for (const Layer* layer = newest_.get(); layer != nullptr; layer = layer->older())
    views.emplace_back(*layer);
  std::reverse(views.begin(), views.end());
  return views;
}

}  // namespace sepal::filter
