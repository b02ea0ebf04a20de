// The bits of a layer that is made of those of others (unite.hpp), read without making it.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sepal::bloom {

class UnitedLayer {
 public:
  // The parts fold into the shape, and are valid as long as this object lives.
  UnitedLayer(const LayerPlan& shape, std::vector<LayerView> parts);

  // Bytes of the bitmap, as LayerView::copy_bits. `offset` and the length are multiples of a block for a
  // layer of blocks, and of 8 for others. Returns the number of bytes that were read for that.
  std::uint64_t read(std::uint64_t offset, std::span<std::byte> to) const;

 private:
  struct Part {
    LayerView layer;
    std::uint64_t fold;  // so many of its blocks, or words, are one
  };

  LayerPlan shape_;
  std::vector<Part> parts_;
  mutable std::vector<std::byte> scratch_;
};

}  // namespace sepal::bloom
