// Bits are read and written in pieces that stay in a core's second-level cache, so that each part's bits come
// from memory once, and those of the result go there once.
#include <sepal/base/assert.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/filter/unite.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "bloom/filter/united_layer.hpp"

namespace sepal::bloom {
namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 10;
// So much is read between two calls of GoOn, or one block.
constexpr std::uint64_t read_bytes_max = std::uint64_t{4} << 20;
// No layer is folded further: what is left is small then, and the search for a divisor ends.
constexpr std::uint64_t fold_max = std::uint64_t{1} << 16;

void or_bytes(std::span<std::byte> into, std::span<const std::byte> from) {
  SEPAL_ASSERT(into.size() == from.size(), "bits of another length are ORed");
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= into.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, &into[at], sizeof a);
    std::memcpy(&b, &from[at], sizeof b);
    a |= b;
    std::memcpy(&into[at], &a, sizeof a);
  }
  SEPAL_ASSERT(at == into.size(), "bits are ORed in whole words");
}

// The layers at this index, of the parts that have it.
std::vector<LayerView> layers_at(Parts parts, std::uint32_t layer_index) {
  std::vector<LayerView> layers;
  for (const PartLayers& part : parts)
    if (layer_index < part.size()) layers.push_back(part[layer_index]);
  return layers;
}

std::string rate_in_short(double rate) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%g", rate);
  return text.data();
}

std::string numbers(const char* what, std::uint64_t one, std::uint64_t other) {
  return std::string(what) + ": " + std::to_string(one) + " and " + std::to_string(other);
}

// The difference that keeps two filters from being united; empty: there is none.
std::string difference(const Filter& a, const Filter& b) {
  const FilterOptions of_a = a.options();
  const FilterOptions of_b = b.options();
  if (of_a.hash != of_b.hash) return "hashes: one filter did not begin in Sepal";
  // The seeds themselves are secret (docs/security.md).
  if (of_a.seed != of_b.seed) return "seeds";
  // The options decide the layers to come, too: a filter may grow while it is read.
  if (of_a.expansion != of_b.expansion) return numbers("expansions", of_a.expansion, of_b.expansion);
  const std::uint32_t common = std::min(a.layer_count(), b.layer_count());
  for (std::uint32_t index = 0; index < common; ++index) {
    const LayerPlan plan_of_a = a.layer(index).plan();
    const LayerPlan plan_of_b = b.layer(index).plan();
    if (plan_of_a == plan_of_b) continue;
    if (plan_of_a.capacity != plan_of_b.capacity)
      return numbers("capacities", plan_of_a.capacity, plan_of_b.capacity);
    if (of_a.error_rate != of_b.error_rate)
      return "error rates: " + rate_in_short(of_a.error_rate) + " and " + rate_in_short(of_b.error_rate);
    return numbers("shapes: bytes of a layer", plan_of_a.byte_count(), plan_of_b.byte_count());
  }
  return {};
}

// The largest divisor of `number` that is at most `most`.
std::uint64_t largest_divisor(std::uint64_t number, std::uint64_t most) {
  std::uint64_t divisor = std::min({number, most, fold_max});
  while (divisor > 1 && number % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

// --- one layer --------------------------------------------------------------------------------------------

UnitedLayer::UnitedLayer(const LayerPlan& shape, std::vector<LayerView> parts) : shape_(shape) {
  for (const LayerView& layer : parts) {
    const LayerPlan plan = layer.plan();
    SEPAL_ASSERT(folds_into(plan, shape), "a layer does not fold into the shape");
    parts_.push_back({.layer = layer, .fold = plan.block_count / shape.block_count});
  }
}

std::uint64_t UnitedLayer::read(std::uint64_t offset, std::span<std::byte> to) const {
  std::ranges::fill(to, std::byte{0});
  const std::size_t unit = shape_.block_bits / 8;
  std::uint64_t bytes_read = 0;
  for (const auto& [layer, fold] : parts_) {
    bytes_read += fold * to.size();
    scratch_.resize(std::max(scratch_.size(), to.size()));
    const std::span<std::byte> read = std::span(scratch_).first(to.size());
    if (shape_.layout != Layout::blocked || fold == 1) {
      // Words that are the size of the result apart fall on one.
      for (std::uint64_t turn = 0; turn < fold; ++turn) {
        layer.copy_bits(turn * shape_.byte_count() + offset, read);
        or_bytes(to, read);
      }
      continue;
    }
    // The neighbours of a block come one behind the other, so one piece after the other is read.
    std::size_t into = 0;
    std::uint64_t turn = 0;
    const std::size_t piece = to.size() / unit * unit;
    const std::uint64_t end = (offset + to.size()) * fold;
    for (std::uint64_t at = offset * fold; at < end;) {
      const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(piece, end - at));
      layer.copy_bits(at, read.first(part));
      for (std::size_t block = 0; block < part; block += unit) {
        or_bytes(to.subspan(into, unit), read.subspan(block, unit));
        if (++turn < fold) continue;
        turn = 0;
        into += unit;
      }
      at += part;
    }
  }
  return bytes_read;
}

bool folds_into(const LayerPlan& from, const LayerPlan& into) {
  if (from.layout != into.layout || from.block_bits != into.block_bits ||
      from.probe_count != into.probe_count || from.scheme != into.scheme ||
      from.unused_bits != into.unused_bits || from.first_seed != into.first_seed || into.block_count == 0)
    return false;
  // A client program knows the number of its bits.
  if (from.layout == Layout::client) return from.block_count == into.block_count;
  return from.block_count % into.block_count == 0;
}

Result<void> take_layer(Filter& into, std::uint32_t layer_index, Parts parts, const value::GoOn& go_on,
                        std::uint64_t& bytes_done) {
  const LayerPlan shape = into.layer(layer_index).plan();
  const std::vector<LayerView> layers = layers_at(parts, layer_index);
  // Nothing of it is touched.
  if (layers.empty()) return {};
  for (const LayerView& layer : layers)
    if (!folds_into(layer.plan(), shape))
      return fail(Errc::out_of_range, "a layer cannot be folded into a layer of that shape");
  const UnitedLayer united(shape, layers);
  // A single block may be larger than a piece.
  const std::uint64_t unit = shape.layout == Layout::blocked ? shape.block_bits / 8 : sizeof(std::uint64_t);
  std::uint64_t reads = 0;  // of each byte of the result
  for (const LayerView& layer : layers) reads += layer.plan().block_count / shape.block_count;
  const std::uint64_t bytes = std::min<std::uint64_t>(piece_bytes, read_bytes_max / reads);
  std::vector<std::byte> piece(std::max<std::uint64_t>(unit, bytes / unit * unit));
  for (std::uint64_t at = 0; at < shape.byte_count(); at += piece.size()) {
    const auto some = std::span(piece).first(std::min<std::uint64_t>(piece.size(), shape.byte_count() - at));
    bytes_done += united.read(at, some);
    into.or_bits(layer_index, at, some);
    if (go_on && !go_on(bytes_done)) return fail(Errc::io, "given up before the end, as asked");
  }
  return {};
}

// --- a whole filter ---------------------------------------------------------------------------------------

Result<ImageHeader> shape_of_union(std::span<const Filter* const> filters) {
  SEPAL_ASSERT(!filters.empty(), "a union of no filters");
  const auto most_layers =
      std::ranges::max_element(filters, {}, [](const Filter* filter) { return filter->layer_count(); });
  for (const Filter* const filter : filters)
    if (const std::string differing = difference(**most_layers, *filter); !differing.empty())
      return fail(Errc::out_of_range, "filters have different " + differing);
  ImageHeader shape = header_of(**most_layers);
  for (Filter::LayerState& layer : shape.layers) layer.item_count = 0;
  return shape;
}

std::optional<ImageHeader> shape_shrunk(const Filter& filter, std::uint64_t capacity) {
  ImageHeader shape = header_of(filter);
  Filter::LayerState& newest = shape.layers.back();
  if (newest.plan.layout == Layout::client) return std::nullopt;
  std::uint64_t of_older = 0;
  for (std::size_t index = 0; index + 1 < shape.layers.size(); ++index)
    of_older += shape.layers[index].plan.capacity;
  const std::uint64_t needed =
      std::max({newest.item_count, capacity - std::min(capacity, of_older), std::uint64_t{1}});
  if (needed >= newest.plan.capacity) return std::nullopt;
  const std::uint64_t fold = largest_divisor(newest.plan.block_count, newest.plan.capacity / needed);
  if (fold == 1) return std::nullopt;
  newest.plan.block_count /= fold;
  newest.plan.capacity /= fold;
  if (shape.layers.size() == 1) shape.options.capacity = newest.plan.capacity;
  return shape;
}

FilterMeasure measure_union(const ImageHeader& shape, Parts parts, std::uint64_t bytes_max) {
  std::vector<LayerPlan> plans;
  std::vector<UnitedLayer> layers;
  for (std::uint32_t index = 0; index < shape.layers.size(); ++index) {
    plans.push_back(shape.layers[index].plan);
    layers.emplace_back(plans.back(), layers_at(parts, index));
  }
  return measure(
      plans,
      [&](std::size_t layer, std::uint64_t offset, std::span<std::byte> to) {
        static_cast<void>(layers[layer].read(offset, to));
      },
      bytes_max);
}

void count_union(ImageHeader& shape, Parts parts, const FilterMeasure& measured) {
  SEPAL_ASSERT(measured.layers.size() == shape.layers.size(), "a union of other layers was measured");
  for (std::uint32_t index = 0; index < shape.layers.size(); ++index) {
    auto& [plan, item_count] = shape.layers[index];
    std::uint64_t largest = 0;
    std::uint64_t sum = 0;
    for (const LayerView& layer : layers_at(parts, index)) {
      const std::uint64_t items = layer.item_count();
      largest = std::max(largest, items);
      // A client may have said any number of items for its bitmap, so the sum need not fit.
      sum = checked_add(sum, items).value_or(std::numeric_limits<std::uint64_t>::max());
    }
    const std::uint64_t most = std::min(sum, plan.capacity);
    // The doubles of numbers up to 2^53 are exact, and an estimate is no more exact than that.
    const double estimate = std::min(measured.layers[index].item_estimate, 0x1p62);
    item_count =
        std::clamp(static_cast<std::uint64_t>(std::llround(estimate)), std::min(largest, most), most);
  }
}

Result<FilterPtr> unite(const ImageHeader& shape, Parts parts, const FilterLimits& limits,
                        const value::GoOn& go_on) {
  auto made = Filter::restore(shape.options, shape.layers, limits, value::FilledBy::load);
  if (!made) return made;
  std::uint64_t bytes_done = 0;
  for (std::uint32_t index = 0; index < shape.layers.size(); ++index)
    if (auto taken = take_layer(**made, index, parts, go_on, bytes_done); !taken) return taken.error();
  return made;
}

}  // namespace sepal::bloom
