#include "command/bloom/uniting.hpp"

#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/unite.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/keyspace/mutation.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace sepal::command {
namespace {

using bloom::Filter;

static_assert(bloom::image_bytes(bloom::filter_layers_max) <= keyspace::remade_head_bytes_max);

std::string rate_text(double rate) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", rate);
  return text;
}

// Three digits, and zeros behind them: an estimate is no more exact.
std::string about(double number) {
  double unit = 1;
  while (number / unit >= 1000) unit *= 10;
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", std::round(number / unit) * unit);
  return text;
}

// What was asked for. The rate of a filter that came from RedisBloom is that of its first layer.
double asked_rate(const bloom::ImageHeader& shape) {
  double sum = 0;
  for (const auto& layer : shape.layers) sum += layer.plan.error_rate;
  return std::max(sum, shape.options.error_rate);
}

std::uint64_t capacity_of(const bloom::ImageHeader& shape) {
  std::uint64_t capacity = 0;
  for (const auto& layer : shape.layers) capacity += layer.plan.capacity;
  return capacity;
}

class UnitingFilters final : public Uniting {
 public:
  explicit UnitingFilters(const RemakeRequest& request) : request_(request) {
    for (const value::ValuePtr& part : request.parts) filters_.push_back(value::as<Filter>(part.get()));
  }

  Result<void> begin() override {
    if (request_.unites) {
      auto shape = bloom::shape_of_union(filters_);
      if (!shape) return shape.error();
      shape_ = std::move(*shape);
    } else {
      auto shape = bloom::shape_shrunk(*filters_[0], request_.capacity);
      if (!shape) return fail(Errc::in_use, std::string(text::not_shrunk));
      shape_ = std::move(*shape);
    }
    layers_.clear();
    for (const Filter* const filter : filters_) layers_.push_back(filter->layers());
    return {};
  }

  // The union's counts are estimates, as far as its bits and the counts of the parts allow.
  Result<void> count() override {
    if (!request_.unites) return {};
    const std::uint64_t bytes_max =
        std::min<std::uint64_t>(bloom::measured_bytes_max, sampled_bytes_max / layers_.size());
    const bloom::FilterMeasure measured = bloom::measure_union(shape_, layers_, bytes_max);
    const double allowed = request_.allowed.value_or(asked_rate(shape_));
    if (measured.false_positive_rate > allowed * rate_tolerance)
      return too_full(measured.false_positive_rate, allowed, "it has", measured.item_estimate,
                      capacity_of(shape_));
    bloom::count_union(shape_, layers_, measured);
    counts_then_.clear();
    if (request_.continued)
      for (const bloom::LayerView& layer : layers_[*request_.continued])
        counts_then_.push_back(layer.item_count());
    return {};
  }

  [[nodiscard]] std::uint64_t byte_count() const override { return shape_.bitmap_bytes(); }

  Result<value::ValuePtr> make(const value::Limits& limits) const override {
    auto made = Filter::restore(shape_.options, shape_.layers, limits, value::FilledBy::load);
    if (!made) return made.error();
    return value::ValuePtr(std::move(*made));
  }

  Result<void> take_parts(value::Value& made, const value::GoOn& go_on) override {
    auto& filter = value::as<Filter>(made);
    std::uint64_t bytes_done = 0;
    for (std::uint32_t index = 0; index < filter.layer_count(); ++index)
      if (auto taken = bloom::take_layer(filter, index, layers_, go_on, bytes_done); !taken) return taken;
    return {};
  }

  // The layer with this index of the new filter has all bits of that of the old one: so it also answers
  // "known" for all items that the old one took for known.
  bool take_entries(value::Value& made, std::span<const Fingerprint> entries) override {
    value::as<Filter>(made).set_bits(static_cast<std::uint32_t>(layers_[*request_.continued].size() - 1),
                                     entries);
    return true;
  }

  bool finish(value::Value& made) const override {
    std::vector<Filter::LayerState> layers = shape_.layers;
    if (request_.continued) {
      const Filter& filter = *filters_[*request_.continued];
      if (filter.layer_count() != layers_[*request_.continued].size()) return false;
      for (std::uint32_t index = 0; index < filter.layer_count(); ++index)
        if (!set_count(layers[index], index, filter.layer(index).item_count())) return false;
    }
    value::as<Filter>(made).set_item_counts(layers);
    return true;
  }

  [[nodiscard]] std::uint32_t extent(std::size_t part) const override {
    return static_cast<std::uint32_t>(layers_[part].size());
  }

 private:
  // `now`: the items of that layer of the continued part. False: there is no room for them.
  bool set_count(Filter::LayerState& layer, std::uint32_t index, std::uint64_t now) const {
    auto& [plan, item_count] = layer;
    if (!request_.unites) {
      item_count = now;
      return now <= plan.capacity;
    }
    // Counts never fall.
    const std::uint64_t more = now - counts_then_[index];
    const std::uint64_t room = plan.capacity - item_count;
    // A few more than planned do not matter. A client that has allowed any rate has allowed this.
    if (!request_.allowed && more > room + plan.capacity / 20) return false;
    item_count += std::min(more, room);
    return true;
  }

  const RemakeRequest& request_;
  std::vector<const Filter*> filters_;
  bloom::ImageHeader shape_;                // with the counts of count()
  std::vector<bloom::PartLayers> layers_;   // of each part; what is read of it
  std::vector<std::uint64_t> counts_then_;  // of the continued part's layers, when shape_ was counted
};

}  // namespace

Error too_full(double rate, double allowed, const char* whose, double items, std::uint64_t room) {
  return fail(Errc::out_of_range, "the union would err at " + rate_text(rate) + ", more than " +
                                      rate_text(allowed) + ": " + whose + " about " + about(items) +
                                      " different items, and room for " + std::to_string(room));
}

std::unique_ptr<Uniting> Uniting::of(const RemakeRequest& request) {
  if (request.parts[0]->kind() == value::Kind::window) return uniting_of_windows(request);
  return std::make_unique<UnitingFilters>(request);
}

}  // namespace sepal::command
