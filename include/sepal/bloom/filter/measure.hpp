// What the bits of a filter say about it: how full it is, how many different items it was given, and how
// often it answers "maybe" for an absent item, now.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sepal::bloom {

struct LayerMeasure {
  std::uint64_t bits_set = 0;
  double fill = 0;                 // the share of the bits that are set, in [0, 1]
  double item_estimate = 0;        // different items that set so many bits
  double false_positive_rate = 0;  // in [0, 1]
  bool whole = true;               // every bit was counted; else a sample
};

struct FilterMeasure {
  std::vector<LayerMeasure> layers;  // oldest first
  std::uint64_t bits = 0;
  std::uint64_t bits_set = 0;
  double fill = 0;
  double item_estimate = 0;
  double false_positive_rate = 0;
  bool whole = true;
};

// Enough that the bits set and the items of any filter from 10% of its capacity on are within 1%, and that
// the look at a filter of any size ends within milliseconds.
inline constexpr std::uint64_t measured_bytes_max = std::uint64_t{4} << 20;

// Reads at most about `bytes_max` of the bitmaps, which the layers share. Bitmaps that are not larger than
// their share are read whole. The layers are those of one filter, oldest first; the caller holds a reference
// to it. Any thread, outside the gate as well; items that are added meanwhile may or may not count. Allocates
// some kilobytes.
[[nodiscard]] FilterMeasure measure(std::span<const LayerView> layers, std::uint64_t bytes_max);
// The same for layers of these shapes whose bytes `read` gives, as LayerView::copy_bits. For a layer of
// blocks, whole blocks are asked for.
using ReadBits = std::function<void(std::size_t layer, std::uint64_t offset, std::span<std::byte> to)>;
[[nodiscard]] FilterMeasure measure(std::span<const LayerPlan> layers, const ReadBits& read,
                                    std::uint64_t bytes_max);

}  // namespace sepal::bloom
