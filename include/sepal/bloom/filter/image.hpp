// The header of a filter's image: what its bits mean. The bits themselves follow in whatever container holds
// the image (a snapshot file, a pack, an export), layer by layer, oldest first.
//
//     offset  size  field (little endian)
//     0       4     magic "SPLF"
//     4       2     version of this header: the hash and 1
//     6       2     hash (ItemHash): 0 XXH3; 1 RedisBloom's; 2 none, this is a string; 3 XXH3 above
//                   the bitmap of a client
//     8       8     seed
//     16      8     error rate of the filter (IEEE 754 double)
//     24      8     capacity of the first layer
//     32      4     expansion (0: does not scale)
//     36      4     layer count L
//     40      48*L  layers, oldest first:
//                     8 capacity, 8 error rate (double), 8 block count, 4 block bits, 4 probe count,
//                     8 item count, 1 layout (Layout): 0 blocks; 1 double hashing, in layers that came from
//                     RedisBloom, whose block bits are 64; 3 a client's bitmap, whose block bits are 64,
//                     1 scheme (Scheme), 1 bits of the last word that are not used, 1 zero, 4 first seed.
//                     The last four numbers are 0 in other layouts
//
// Where the bits of an item are, with hash 0. The item's fingerprint is the 128 bits of XXH3 under the seed,
// two halves of 64 bits: low and high. In a layer the item has the block low * block_count / 2^64. In the
// block, for j from 0 to probe count - 1, it has the position (high * multiplier[j] mod 2^64) * block_bits /
// 2^64; the multipliers are in src/bloom/kernel/probe.hpp. Position p is bit p % 64, from the least
// significant, of the block's 64-bit word p / 64. Words are little endian.
//
// With hash 1 the halves are what ItemHash::redisbloom says. In a layer of blocks they are used in the same
// way. In a layer of layout 1 the position j is ((low + j * high) mod 2^64) mod the layer's bits, counted
// through all of its words.
//
// With hash 2 the layer's bits are the bytes of a string, and the item count is the string's length. There is
// one layer, of layout 2, whose block bits are 64, whose probe count is 0, and whose capacity is the number
// of bytes in its blocks. The rates and the seed mean nothing.
//
// With hash 3 the oldest layer has layout 3: schemes.hpp says where an item's bits are in it. It takes no
// items, and its item count is an estimate. The other layers have the layout 0, and fingerprints as with
// hash 0.
//
// The header has no checksum of its own: its container has one over these bytes.
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
inline constexpr std::uint16_t image_version_of_strings = 3;
inline constexpr std::uint16_t image_version_of_client_bitmaps = 4;

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
// The same for a value in Redis's RDB format. Damaged also where bytes follow the header, or where it is that
// of a string.
Result<ImageHeader> decode_value_header(std::span<const std::byte> bytes, std::uint32_t layers_max);

// --- the bitmaps of all layers, one behind the other, as they follow the header -------------------------

// Copies bytes of these bitmaps, as LayerView::copy_bits. `offset` and the length are multiples of 8 within
// them.
void copy_bits(std::span<const LayerView> layers, std::uint64_t offset, std::span<std::byte> to);
// Whether no bit of these bytes is set.
[[nodiscard]] bool all_zero(std::span<const std::byte> bits);
// Sets bytes of these bitmaps, as Filter::fill_bits.
void fill_bits(Filter& filter, std::uint64_t offset, std::span<const std::byte> from);

// --- header and bitmaps in one piece --------------------------------------------------------------------

// The length of whole_image(). Shared gate.
[[nodiscard]] std::uint64_t whole_image_bytes(const Filter& filter);
// No other thread adds to the filter meanwhile. Allocates the whole image: for small filters.
[[nodiscard]] std::vector<std::byte> whole_image(const Filter& filter);
// The inverse. Errors: those of decode_image_header; damaged also where the bytes are more or fewer than the
// header says; too_large, out_of_memory, mapping_limit.
Result<FilterPtr> filter_of(std::span<const std::byte> image, const FilterLimits& limits);

}  // namespace sepal::bloom
