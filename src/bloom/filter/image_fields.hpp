// The fields of an image header (image.hpp), for all that write one.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/fields.hpp>
#include <sepal/bloom/filter/image.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bloom/filter/layer_state.hpp"

namespace sepal::bloom {

inline constexpr std::array<char, 4> image_magic = {'S', 'P', 'L', 'F'};

// The version of the headers that have this hash, if no layer was shrunk: an older build reads what it knows,
// and refuses the rest. Nothing where the number is no hash.
[[nodiscard]] std::optional<std::uint16_t> image_version_of(ItemHash hash);

// `layer(index)` gives the state of a layer, oldest first.
template <class LayerAt>
void encode(const FilterOptions& options, std::size_t layer_count, const LayerAt& layer,
            std::span<std::byte> into) {
  SEPAL_ASSERT(into.size() == image_bytes(layer_count), "an image header of another length");
  bool shrunk = false;
  for (std::size_t index = 1; index < layer_count; ++index)
    shrunk |= is_shrunk(options, index, layer(index).plan, layer(index - 1).plan);
  FieldWriter writer(into);
  for (const char letter : image_magic) writer.integer(static_cast<std::uint8_t>(letter));
  const auto version = image_version_of(options.hash);
  SEPAL_ASSERT(version.has_value(), "a filter has a hash that no image names");
  writer.integer(shrunk ? image_version_of_shrunk_layers : *version);
  writer.integer(static_cast<std::uint16_t>(options.hash));
  writer.integer(options.seed);
  writer.real(options.error_rate);
  writer.integer(options.capacity);
  writer.integer(options.expansion);
  writer.integer(static_cast<std::uint32_t>(layer_count));
  for (std::size_t index = 0; index < layer_count; ++index) {
    const Filter::LayerState state = layer(index);
    writer.integer(state.plan.capacity);
    writer.real(state.plan.error_rate);
    writer.integer(state.plan.block_count);
    writer.integer(state.plan.block_bits);
    writer.integer(state.plan.probe_count);
    writer.integer(state.item_count);
    writer.integer(static_cast<std::uint8_t>(state.plan.layout));
    writer.integer(static_cast<std::uint8_t>(state.plan.scheme));
    writer.integer(state.plan.unused_bits);
    writer.integer(std::uint8_t{0});
    writer.integer(state.plan.first_seed);
  }
}

}  // namespace sepal::bloom
