// A filter made of the bits of others: of several filters their union, of one filter a smaller one.
//
// Union. Filters of one seed put an item at the same place in layers of one shape. So the bits of two layers,
// ORed, are those of a layer that was given the items of both.
//
// Folding. A layer of blocks puts an item into block floor(low * N / 2^64) (plan/probe.hpp). For N = m * M
// that number, divided by m, is floor(low * M / 2^64): the block of a layer of M blocks. So m neighbouring
// blocks, ORed, are bit for bit the block of the smaller layer. In RedisBloom's layout a position is taken
// modulo the number of bits, so there words that are M apart are ORed. A layer of another number of blocks
// cannot be made from bits.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/bloom/filter/measure.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sepal::bloom {

// Whether the bits of a layer of the shape `from` can be folded into one of the shape `into`; equal shapes
// can.
[[nodiscard]] bool folds_into(const LayerPlan& from, const LayerPlan& into);

// --- shared, as the members of Filter ---------------------------------------------------------------------

// What the union of filters is like: the options and shapes of the filter with the most layers, the first one
// of several, and counts of zero items. There is at least one filter. Errors, with a sentence: out_of_range
// where they differ in what they must share.
Result<ImageHeader> shape_of_union(std::span<const Filter* const> filters);

// The shape of a filter whose newest layer is folded as far as leaves room for `capacity` items in all
// layers, and for those that the layer has. The counts are those of this moment. Nothing: no folding leaves
// that.
[[nodiscard]] std::optional<ImageHeader> shape_shrunk(const Filter& filter, std::uint64_t capacity);

// --- any thread, while the filters are held ---------------------------------------------------------------

// The layers of one of the filters of which another one is made, oldest first; those with the same index are
// ORed. Bits that are set meanwhile may or may not be read.
using PartLayers = std::vector<LayerView>;
using Parts = std::span<const PartLayers>;

// What the bits would say of a filter of this shape, made of these parts; as measure(). All layers fold into
// those of the shape.
[[nodiscard]] FilterMeasure measure_union(const ImageHeader& shape, Parts parts, std::uint64_t bytes_max);

// Sets the counts of `shape` to what the measured bits say, within what the counts of the parts allow: at
// least the largest, at most their sum and the layer's capacity.
void count_union(ImageHeader& shape, Parts parts, const FilterMeasure& measured);

// Makes the filter of this shape and these counts, of these parts. Errors: those of Filter::restore and
// take_layer.
Result<FilterPtr> unite(const ImageHeader& shape, Parts parts, const FilterLimits& limits,
                        const value::GoOn& go_on);
// Sets in layer `layer_index` of `into` the bits of that layer of the parts. No other thread knows `into`.
// `bytes_done` grows with what was read. Errors: out_of_range where a layer does not fold; io (given up).
Result<void> take_layer(Filter& into, std::uint32_t layer_index, Parts parts, const value::GoOn& go_on,
                        std::uint64_t& bytes_done);

}  // namespace sepal::bloom
