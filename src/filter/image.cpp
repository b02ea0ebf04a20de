#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/filter/image.hpp>

#include <array>
#include <bit>
#include <cstring>

#include "layer_state.hpp"

namespace sepal::filter {
namespace {

constexpr std::array<char, 4> magic = {'S', 'P', 'L', 'F'};

// Puts fields one behind the other, in the order of the format, where there is room for them.
class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) : bytes_(bytes) {}

  template <class Integer>
  void integer(Integer value) {
    store_little_endian(bytes_.data(), value);
    bytes_ = bytes_.subspan(sizeof value);
  }
  void real(double value) { integer(std::bit_cast<std::uint64_t>(value)); }

 private:
  std::span<std::byte> bytes_;
};

// Takes fields in the order of the format. The caller has checked that they are there.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class Integer>
  Integer integer() {
    const auto value = load_little_endian<Integer>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  double real() { return std::bit_cast<double>(integer<std::uint64_t>()); }

 private:
  std::span<const std::byte> bytes_;
};

Filter::LayerState read_layer(Reader& reader) {
  Filter::LayerState state;
  state.plan.capacity = reader.integer<std::uint64_t>();
  state.plan.error_rate = reader.real();
  state.plan.block_count = reader.integer<std::uint64_t>();
  state.plan.block_bits = reader.integer<std::uint32_t>();
  state.plan.probe_count = reader.integer<std::uint32_t>();
  state.item_count = reader.integer<std::uint64_t>();
  return state;
}

Error damaged(const char* detail) {
  return fail(Errc::damaged, detail);
}

}  // namespace

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
  SEPAL_ASSERT(into.size() == image_bytes(header.layers.size()), "an image header of another length");
  Writer writer(into);
  for (const char letter : magic) writer.integer(static_cast<std::uint8_t>(letter));
  writer.integer(image_version);
  writer.integer(std::uint16_t{0});
  writer.integer(header.options.seed);
  writer.real(header.options.error_rate);
  writer.integer(header.options.capacity);
  writer.integer(header.options.expansion);
  writer.integer(static_cast<std::uint32_t>(header.layers.size()));
  for (const auto& [plan, item_count] : header.layers) {
    writer.integer(plan.capacity);
    writer.real(plan.error_rate);
    writer.integer(plan.block_count);
    writer.integer(plan.block_bits);
    writer.integer(plan.probe_count);
    writer.integer(item_count);
    writer.integer(std::uint64_t{0});
  }
}

std::vector<std::byte> encode(const ImageHeader& header) {
  std::vector<std::byte> bytes(image_bytes(header.layers.size()));
  encode(header, bytes);
  return bytes;
}

Result<ImageHeader> decode_image_header(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  if (bytes.size() < image_header_bytes) return damaged("a filter's header is cut short");
  if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) return damaged("this is not a filter");
  Reader reader(bytes.subspan(magic.size()));
  if (reader.integer<std::uint16_t>() != image_version)
    return fail(Errc::unsupported_version,
                "the filter's header is of a version that this build does not know");
  if (reader.integer<std::uint16_t>() != 0) return damaged("a filter's header has unknown flags");

  ImageHeader header;
  header.options.seed = reader.integer<std::uint64_t>();
  header.options.error_rate = reader.real();
  header.options.capacity = reader.integer<std::uint64_t>();
  header.options.expansion = reader.integer<std::uint32_t>();
  const auto layer_count = reader.integer<std::uint32_t>();
  if (layer_count > layers_max) return damaged("a filter's header names more layers than a filter may have");
  if ((bytes.size() - image_header_bytes) / image_layer_bytes < layer_count)
    return damaged("a filter's header is cut short among its layers");
  header.layers.reserve(layer_count);
  for (std::uint32_t i = 0; i < layer_count; ++i) {
    header.layers.push_back(read_layer(reader));
    if (reader.integer<std::uint64_t>() != 0) return damaged("a filter's header has unknown contents");
  }
  if (!is_sound(header.options, header.layers))
    return damaged("a filter's header has values that no filter has");
  return header;
}

}  // namespace sepal::filter
