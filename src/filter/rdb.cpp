#include <sepal/base/endian.hpp>
#include <sepal/filter/rdb.hpp>
#include <sepal/filter/redisbloom.hpp>

#include <algorithm>
#include <utility>

namespace sepal::filter {
namespace {

constexpr std::size_t version_bytes = 2;
constexpr std::size_t rdb_checksum_bytes = sizeof(std::uint64_t);
// Bits are filled in by pieces of this length.
constexpr std::size_t fill_bytes = 64 << 10;

Error not_a_filter() {
  return fail(Errc::out_of_range, "this is not a filter of RedisBloom");
}

RedisBloomLayer read_layer(RdbReader& reader, std::vector<RdbString>& bits) {
  RedisBloomLayer layer;
  layer.capacity = reader.number();
  layer.error_rate = reader.real();
  layer.probe_count = reader.number();
  layer.bits_per_item = reader.real();
  layer.bit_count = reader.number();
  layer.size_exponent = reader.number();
  bits.push_back(reader.bits());
  layer.byte_count = bits.back().unpacked_bytes;
  layer.item_count = reader.number();
  return layer;
}

Result<void> fill_layer(Filter& filter, std::uint32_t layer, const RdbString& bits, RdbBytes& bytes) {
  RdbStringReader reader(bits, bytes);
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(fill_bytes, bits.unpacked_bytes)));
  for (std::uint64_t at = 0; at < bits.unpacked_bytes;) {
    const auto part = std::span(piece).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bits.unpacked_bytes - at)));
    if (!reader.read(part)) return not_a_filter();
    filter.fill_bits(layer, at, part);
    at += part.size();
  }
  return {};
}

}  // namespace

bool is_rdb_dump(std::span<const std::byte> bytes) {
  return !bytes.empty() && std::to_integer<std::uint8_t>(bytes[0]) == rdb_module_type;
}

Result<RdbFilter> read_rdb_filter(RdbReader& reader, std::uint32_t layers_max) {
  RedisBloomFilter filter;
  filter.item_count = reader.number();
  const std::uint64_t layer_count = reader.number();
  filter.options = reader.number();
  filter.expansion = reader.number();
  RdbFilter found;
  if (layer_count > layers_max) {
    reader.skip_fields();
  } else {
    for (std::uint64_t i = 0; i < layer_count; ++i) filter.layers.push_back(read_layer(reader, found.bits));
    reader.end();
  }
  if (reader.failed()) return fail(Errc::damaged, "these are not the fields of a filter of RedisBloom");
  if (layer_count > layers_max)
    return fail(Errc::out_of_range, "the filter has more layers than a filter may have");
  auto image = image_of(filter);
  if (!image) return fail(Errc::out_of_range, image.error().detail);
  found.image = std::move(*image);
  return found;
}

Result<RdbDump> decode_rdb_dump(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  if (bytes.size() < version_bytes + rdb_checksum_bytes) return fail(Errc::damaged);
  const auto sealed = bytes.first(bytes.size() - rdb_checksum_bytes);
  if (load_little_endian<std::uint64_t>(bytes.data() + sealed.size()) != rdb_checksum(sealed))
    return fail(Errc::damaged);

  RdbReader reader(sealed.first(sealed.size() - version_bytes));
  if (reader.byte() != rdb_module_type || reader.length() != redisbloom_id) return not_a_filter();
  auto filter = read_rdb_filter(reader, layers_max);
  if (!filter || !reader.at_end())
    return filter ? not_a_filter() : fail(Errc::out_of_range, filter.error().detail);
  return RdbDump{.filter = std::move(*filter), .bytes = bytes};
}

Result<FilterPtr> filter_of(const RdbDump& dump, const FilterLimits& limits) {
  const ImageHeader& image = dump.filter.image;
  auto filter = Filter::restore(image.options, image.layers, limits);
  if (!filter) return filter;
  BytesInMemory bytes(dump.bytes);
  for (std::uint32_t i = 0; i < dump.filter.bits.size(); ++i)
    if (auto filled = fill_layer(**filter, i, dump.filter.bits[i], bytes); !filled) return filled.error();
  return filter;
}

}  // namespace sepal::filter
