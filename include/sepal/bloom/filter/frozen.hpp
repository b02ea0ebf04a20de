// A filter as it was at one instant, to be copied while other threads go on adding to it.
//
// Layers and counts are those of the instant. Bits are read later, and only ever go from 0 to 1. So a copy
// has all that was added before the instant. It may have a part of what came after, which its counts do not
// count.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sepal::bloom {

using value::GoOn;

// Keeps the filter alive. Immutable.
class Frozen {
 public:
  explicit Frozen(FilterPtr filter);  // exclusive: this is the instant

  [[nodiscard]] const FilterPtr& filter() const { return filter_; }
  [[nodiscard]] const ImageHeader& header() const { return header_; }
  [[nodiscard]] const std::vector<LayerView>& layers() const { return layers_; }
  // The bytes that image() gives in all.
  [[nodiscard]] std::uint64_t image_byte_count() const;

  // Outside the gate. Errors: too_large, out_of_memory, io (given up).
  Result<FilterPtr> copy(const FilterLimits& limits, const GoOn& go_on) const;
  // Gives header and bitmaps, in this order, in pieces of at most mapped_allocation_min. Errors: io (given
  // up).
  Result<void> image(const std::function<void(std::string piece)>& take, const GoOn& go_on) const;

 private:
  FilterPtr filter_;
  ImageHeader header_;
  std::vector<LayerView> layers_;
};

}  // namespace sepal::bloom
