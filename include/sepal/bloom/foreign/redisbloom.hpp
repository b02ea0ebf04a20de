// Turns filters as RedisBloom writes them into images of Sepal's. Their bits stay as they are; RedisBloom's
// hash and layout find them (ItemHash::redisbloom, Layout::double_hashing).
//
// The header of a dump (BF.SCANDUMP 0), little endian, packed:
//
//     offset  size  field
//     0       8     items: the sum of those of the layers
//     8       4     layer count L
//     12      4     options: 1 sizes are not rounded to a power of two; 2 capacities are bits; 4 hashes of 64
//                   bits; 8 does not scale
//     16      4     expansion
//     20      53*L  layers, oldest first:
//                     8 bytes, 8 bits, 8 items, 8 error rate (double), 8 bits an item (double), 4 probe
//                     count, 8 capacity, 1 n2: not 0 where there are 2^n2 bits
//
// The bits of all layers follow, one behind the other. Each layer has half of the rate of the one before.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sepal::bloom {

struct RedisBloomLayer {
  std::uint64_t byte_count = 0;
  std::uint64_t bit_count = 0;
  std::uint64_t item_count = 0;
  double error_rate = 0;
  double bits_per_item = 0;
  std::uint64_t probe_count = 0;
  std::uint64_t capacity = 0;
  std::uint64_t size_exponent = 0;  // n2
};

struct RedisBloomFilter {
  std::uint64_t item_count = 0;
  std::uint64_t options = 0;
  std::uint64_t expansion = 0;
  std::vector<RedisBloomLayer> layers;  // oldest first
};

// A filter in an RDB file, from its fields (rdb::Reader or value::RdbFields). take_bits() reads the bits of
// the next layer, and returns how many bytes they are. Nothing where there are more than `layers_max` layers:
// then none is read. Once fields.failed(), what is returned means nothing.
template <class Fields, class TakeBits>
std::optional<RedisBloomFilter> read_redisbloom(Fields& fields, std::uint32_t layers_max,
                                                const TakeBits& take_bits) {
  RedisBloomFilter filter;
  filter.item_count = fields.number();
  const std::uint64_t layer_count = fields.number();
  filter.options = fields.number();
  filter.expansion = fields.number();
  if (layer_count > layers_max) return std::nullopt;
  for (std::uint64_t i = 0; i < layer_count && !fields.failed(); ++i) {
    RedisBloomLayer& layer = filter.layers.emplace_back();
    layer.capacity = fields.number();
    layer.error_rate = fields.real();
    layer.probe_count = fields.number();
    layer.bits_per_item = fields.real();
    layer.bit_count = fields.number();
    layer.size_exponent = fields.number();
    layer.byte_count = take_bits();
    layer.item_count = fields.number();
  }
  return filter;
}

// Errors: damaged where RedisBloom would refuse the filter, or where it is of a kind that RedisBloom does not
// make any more (hashes of 32 bits). Believes nothing.
Result<ImageHeader> image_of(const RedisBloomFilter& filter);

// Decodes a dump's header, which is exactly `bytes`. Errors: damaged. `layers_max` bounds the layer count
// before any allocation.
Result<ImageHeader> decode_redisbloom_header(std::span<const std::byte> bytes, std::uint32_t layers_max);

}  // namespace sepal::bloom
