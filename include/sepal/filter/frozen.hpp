// A filter as it was at one instant, to be copied while others go on adding to it.
//
// Layers and counts are those of the instant. Bits are read later, and only ever go from 0 to 1: so a copy
// has all that was added before, and perhaps a part of what came after, which its counts do not count.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/image.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sepal::filter {

// Called now and then with the bytes that are done; false gives up. May be empty.
using GoOn = std::function<bool(std::uint64_t bytes_done)>;

// Holds the filter. Immutable.
class Frozen {
 public:
  explicit Frozen(FilterPtr filter);  // exclusive: this is the instant

  [[nodiscard]] const FilterPtr& filter() const { return filter_; }
  [[nodiscard]] const ImageHeader& header() const { return header_; }
  [[nodiscard]] const std::vector<LayerView>& layers() const { return layers_; }
  // Of image_into().
  [[nodiscard]] std::uint64_t image_byte_count() const;

  // Outside the gate. Errors: too_large, out_of_memory, io (given up).
  Result<FilterPtr> copy(const FilterLimits& limits, const GoOn& go_on) const;
  // Header and bitmaps; `into` is as long as they are. Errors: io (given up).
  Result<void> image_into(std::span<std::byte> into, const GoOn& go_on) const;

 private:
  FilterPtr filter_;
  ImageHeader header_;
  std::vector<LayerView> layers_;
};

}  // namespace sepal::filter
