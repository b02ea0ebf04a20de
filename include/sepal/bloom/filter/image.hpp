// The header of a filter's image: what its bits mean. The bits themselves follow in whatever container holds
// the image (a snapshot file, a pack, an export), layer by layer, oldest first.
//
// docs/formats.md has the bytes ("The image header"), and where the bits of an item are ("From an item to its
// bits"). The header has no checksum of its own: its container has one over these bytes.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace sepal::bloom {

inline constexpr std::size_t image_header_bytes = 40;
inline constexpr std::size_t image_layer_bytes = 48;
inline constexpr std::uint16_t image_version = 1;
inline constexpr std::uint16_t image_version_of_foreign_hash = 2;
inline constexpr std::uint16_t image_version_of_client_bitmaps = 4;
// A header with any hash may have it. It is the one version in which a layer may have a smaller capacity than
// its place asks for.
inline constexpr std::uint16_t image_version_of_shrunk_layers = 5;

struct ImageHeader {
  FilterOptions options;
  std::vector<Filter::LayerState> layers;  // oldest first

  // The bytes of all bitmaps.
  [[nodiscard]] std::uint64_t bitmap_bytes() const;
};

// Shared gate. The counts are those of this moment.
[[nodiscard]] ImageHeader header_of(const Filter& filter);

[[nodiscard]] constexpr std::size_t image_bytes(std::size_t layer_count) {
  return image_header_bytes + layer_count * image_layer_bytes;
}
// `into` has image_bytes() for the layers of the header.
void encode(const ImageHeader& header, std::span<std::byte> into);
[[nodiscard]] std::vector<std::byte> encode(const ImageHeader& header);

// The error of a filter that has more layers than it may have: layer_limit, with the limit.
[[nodiscard]] Error too_many_layers(std::uint32_t layers_max);

// Errors: damaged (magic, lengths, values out of range), unsupported_version, layer_limit. Believes nothing:
// `bytes` may be anything, and longer than the header. `layers_max` bounds the layer count before any
// allocation.
Result<ImageHeader> decode_image_header(std::span<const std::byte> bytes, std::uint32_t layers_max);
// The same for a value in Redis's RDB format. Damaged also where bytes follow the header.
Result<ImageHeader> decode_value_header(std::span<const std::byte> bytes, std::uint32_t layers_max);

// --- the bitmaps of all layers, one behind the other, as they follow the header -------------------------

// Copies bytes of these bitmaps, as LayerView::copy_bits. `offset` and the length are multiples of 8 within
// them.
void copy_bits(std::span<const LayerView> layers, std::uint64_t offset, std::span<std::byte> to);
// Sets bytes of these bitmaps, as Filter::fill_bits.
void fill_bits(Filter& filter, std::uint64_t offset, std::span<const std::byte> from);

}  // namespace sepal::bloom
