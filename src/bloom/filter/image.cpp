#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "bloom/filter/image_fields.hpp"
#include "bloom/filter/layer_state.hpp"

namespace sepal::bloom {
namespace {

// Nothing where the number names no layout.
std::optional<Filter::LayerState> read_layer(FieldReader& reader) {
  Filter::LayerState state;
  state.plan.capacity = reader.integer<std::uint64_t>();
  state.plan.error_rate = reader.real();
  state.plan.block_count = reader.integer<std::uint64_t>();
  state.plan.block_bits = reader.integer<std::uint32_t>();
  state.plan.probe_count = reader.integer<std::uint32_t>();
  state.item_count = reader.integer<std::uint64_t>();
  state.plan.layout = static_cast<Layout>(reader.integer<std::uint8_t>());
  state.plan.scheme = static_cast<Scheme>(reader.integer<std::uint8_t>());
  state.plan.unused_bits = reader.integer<std::uint8_t>();
  const auto reserved = reader.integer<std::uint8_t>();
  state.plan.first_seed = reader.integer<std::uint32_t>();
  // The reserved byte is 0 in each version that this build knows: another value has a meaning that it would
  // miss.
  const bool is_layout = state.plan.layout == Layout::blocked ||
                         state.plan.layout == Layout::double_hashing || state.plan.layout == Layout::client;
  if (!is_layout || reserved != 0) return std::nullopt;
  return state;
}

bool has_shrunk_layer(const ImageHeader& header) {
  for (std::size_t index = 1; index < header.layers.size(); ++index)
    if (is_shrunk(header.options, index, header.layers[index].plan, header.layers[index - 1].plan))
      return true;
  return false;
}

}  // namespace

std::optional<std::uint16_t> image_version_of(ItemHash hash) {
  switch (hash) {
    case ItemHash::xxh3: return image_version;
    case ItemHash::redisbloom: return image_version_of_foreign_hash;
    case ItemHash::xxh3_above_bitmap: return image_version_of_client_bitmaps;
  }
  return std::nullopt;
}

std::uint64_t ImageHeader::bitmap_bytes() const {
  std::uint64_t bytes = 0;
  for (const Filter::LayerState& layer : layers) bytes += layer.plan.byte_count();
  return bytes;
}

ImageHeader header_of(const Filter& filter) {
  ImageHeader header{.options = filter.options(), .layers = {}};
  for (const LayerView& layer : filter.layers())
    header.layers.push_back({.plan = layer.plan(), .item_count = layer.item_count()});
  return header;
}

void encode(const ImageHeader& header, std::span<std::byte> into) {
  encode(
      header.options, header.layers.size(), [&](std::size_t index) { return header.layers[index]; }, into);
}

std::vector<std::byte> encode(const ImageHeader& header) {
  std::vector<std::byte> bytes(image_bytes(header.layers.size()));
  encode(header, bytes);
  return bytes;
}

Error too_many_layers(std::uint32_t layers_max) {
  return fail(Errc::layer_limit,
              "the filter has more than " + std::to_string(layers_max) + " layers, the limit (layers_max)");
}

Result<ImageHeader> decode_image_header(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  if (bytes.size() < image_header_bytes) return damaged("a filter's header is cut short");
  if (std::memcmp(bytes.data(), image_magic.data(), image_magic.size()) != 0)
    return damaged("this is not a filter");
  FieldReader reader(bytes.subspan(image_magic.size()));
  // The version comes before all else: another version may have other fields behind it.
  const auto version = reader.integer<std::uint16_t>();
  if (version < image_version || version > image_version_of_shrunk_layers)
    return fail(Errc::unsupported_version,
                "the filter's header is of a version that this build does not know");
  const auto hash = reader.integer<std::uint16_t>();
  // Compared before the cast, which would make a known hash of a large number. Each hash has one version,
  // beside that of shrunk layers. A header with another one is not what any build wrote.
  const auto version_of_hash = hash > std::numeric_limits<std::uint8_t>::max()
                                   ? std::nullopt
                                   : image_version_of(static_cast<ItemHash>(hash));
  if (!version_of_hash || (version != image_version_of_shrunk_layers && version != *version_of_hash))
    return damaged("a filter's header names an unknown hash");

  ImageHeader header;
  header.options.seed = reader.integer<std::uint64_t>();
  header.options.error_rate = reader.real();
  header.options.capacity = reader.integer<std::uint64_t>();
  header.options.expansion = reader.integer<std::uint32_t>();
  header.options.hash = static_cast<ItemHash>(hash);
  const auto layer_count = reader.integer<std::uint32_t>();
  // Both bounds come before the allocation. What is cut short may have any number here.
  if ((bytes.size() - image_header_bytes) / image_layer_bytes < layer_count)
    return damaged("a filter's header is cut short among its layers");
  if (layer_count > layers_max) return too_many_layers(layers_max);
  header.layers.reserve(layer_count);
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    const auto layer = read_layer(reader);
    if (!layer) return damaged("a filter's header names an unknown layout");
    header.layers.push_back(*layer);
  }
  // From here on no sum of sizes can wrap, and bitmap_bytes() may be believed.
  if (!is_sound(header.options, header.layers) ||
      has_shrunk_layer(header) != (version == image_version_of_shrunk_layers))
    return damaged("a filter's header has values that no filter has");
  return header;
}

Result<ImageHeader> decode_value_header(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  auto header = decode_image_header(bytes, layers_max);
  if (!header) return header;
  if (bytes.size() != image_bytes(header->layers.size()))
    return damaged("a filter's header is of another length");
  return header;
}

void copy_bits(std::span<const LayerView> layers, std::uint64_t offset, std::span<std::byte> to) {
  for (std::size_t index = 0; !to.empty(); ++index) {
    SEPAL_ASSERT(index < layers.size(), "more bits are copied than the filter has");
    const std::uint64_t layer_bytes = layers[index].plan().byte_count();
    if (offset >= layer_bytes) {
      offset -= layer_bytes;
      continue;
    }
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(layer_bytes - offset, to.size()));
    layers[index].copy_bits(offset, to.first(count));
    to = to.subspan(count);
    offset = 0;
  }
}

void fill_bits(Filter& filter, std::uint64_t offset, std::span<const std::byte> from) {
  for (std::uint32_t index = 0; !from.empty(); ++index) {
    SEPAL_ASSERT(index < filter.layer_count(), "more bits are filled in than the filter has");
    const std::uint64_t layer_bytes = filter.layer(index).plan().byte_count();
    if (offset >= layer_bytes) {
      offset -= layer_bytes;
      continue;
    }
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(layer_bytes - offset, from.size()));
    filter.fill_bits(index, offset, from.first(count));
    from = from.subspan(count);
    offset = 0;
  }
}

}  // namespace sepal::bloom
