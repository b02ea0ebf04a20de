// A dump that is wrong but believed would make a filter that denies its items. So each number that RedisBloom
// derives from others is derived again and compared: the probes from the bits an item, the sum of the items,
// the bits from the bytes. What RedisBloom does not make any more is refused, because there is nothing to
// test it with (decisions/0015).
#include <sepal/base/checked.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>

#include <cmath>
#include <numbers>

#include "bloom/filter/layer_state.hpp"

namespace sepal::bloom {
namespace {

constexpr std::size_t redisbloom_head_bytes = 20;
constexpr std::size_t redisbloom_layer_bytes = 53;

constexpr std::uint64_t option_64_bit_hashes = 4;
constexpr std::uint64_t option_does_not_scale = 8;
constexpr std::uint64_t options_known = 1 | 2 | option_64_bit_hashes | option_does_not_scale;

// What RedisBloom itself demands of a layer that it is given.
bool is_whole(const RedisBloomLayer& layer) {
  if (layer.bit_count == 0 || layer.bit_count / 8 != layer.byte_count || layer.bit_count % 8 != 0)
    return false;
  if (!(layer.error_rate > 0 && layer.error_rate < 1)) return false;
  // RedisBloom takes so many probes. The comparisons are written so that NaN is refused.
  const double probes = std::ceil(std::numbers::ln2 * layer.bits_per_item);
  if (!(probes >= 1 && probes <= double_hashing_probe_count_max)) return false;
  if (static_cast<double>(layer.probe_count) != probes) return false;
  // With n2, RedisBloom takes positions modulo 2^n2.
  return layer.size_exponent == 0 ||
         (layer.size_exponent < 64 && layer.bit_count == std::uint64_t{1} << layer.size_exponent);
}

RedisBloomLayer read_redisbloom_layer(FieldReader& reader) {
  RedisBloomLayer layer;
  layer.byte_count = reader.integer<std::uint64_t>();
  layer.bit_count = reader.integer<std::uint64_t>();
  layer.item_count = reader.integer<std::uint64_t>();
  layer.error_rate = reader.real();
  layer.bits_per_item = reader.real();
  layer.probe_count = reader.integer<std::uint32_t>();
  layer.capacity = reader.integer<std::uint64_t>();
  layer.size_exponent = reader.integer<std::uint8_t>();
  return layer;
}

}  // namespace

Result<ImageHeader> image_of(const RedisBloomFilter& filter) {
  if (filter.layers.empty() || (filter.options & ~options_known) != 0 ||
      (filter.options & option_64_bit_hashes) == 0 || filter.expansion > expansion_max)
    return damaged("this is not a filter of RedisBloom");
  ImageHeader header;
  const bool scales = (filter.options & option_does_not_scale) == 0;
  header.options = {.error_rate = filter.layers[0].error_rate,
                    .capacity = filter.layers[0].capacity,
                    // The option decides: the field may have a value all the same.
                    .expansion = scales ? static_cast<std::uint32_t>(filter.expansion) : 0,
                    .seed = 0,
                    .hash = ItemHash::redisbloom};
  std::uint64_t item_count = 0;
  for (const RedisBloomLayer& layer : filter.layers) {
    // Sepal's layers have whole words. There is no dump to test other sizes with (decisions/0015).
    if (!is_whole(layer) || layer.bit_count % 64 != 0) return damaged("a layer is not one of RedisBloom's");
    const auto sum = checked_add(item_count, layer.item_count);
    if (!sum) return damaged("the layers have more items than there are");
    item_count = *sum;
    header.layers.push_back({.plan = {.capacity = layer.capacity,
                                      .error_rate = layer.error_rate,
                                      .block_count = layer.bit_count / 64,
                                      .block_bits = 64,
                                      .probe_count = static_cast<std::uint32_t>(layer.probe_count),
                                      .layout = Layout::double_hashing},
                             .item_count = layer.item_count});
  }
  if (item_count != filter.item_count)
    return damaged("the layers have another number of items than the filter");
  if (!is_sound(header.options, header.layers)) return damaged("no filter has such layers");
  return header;
}

Result<ImageHeader> decode_redisbloom_header(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  if (bytes.size() < redisbloom_head_bytes) return damaged("a dump's header is cut short");
  FieldReader reader(bytes);
  RedisBloomFilter filter;
  filter.item_count = reader.integer<std::uint64_t>();
  const auto layer_count = reader.integer<std::uint32_t>();
  filter.options = reader.integer<std::uint32_t>();
  filter.expansion = reader.integer<std::uint32_t>();
  if (bytes.size() != redisbloom_head_bytes + layer_count * redisbloom_layer_bytes)
    return damaged("a dump's header is of another length");
  if (layer_count > layers_max) return too_many_layers(layers_max);
  for (std::uint32_t i = 0; i < layer_count; ++i) filter.layers.push_back(read_redisbloom_layer(reader));
  return image_of(filter);
}

}  // namespace sepal::bloom
