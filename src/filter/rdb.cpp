#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/filter/bit_string.hpp>
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

constexpr std::size_t rdb_footer_bytes = version_bytes + rdb_checksum_bytes;
// The RDB version of the dumps that are made here: every Redis since 5.0 reads them.
constexpr std::uint16_t made_version = 9;

// A dump without its footer. Errors: damaged.
Result<std::span<const std::byte>> value_of_dump(std::span<const std::byte> bytes) {
  if (bytes.size() < rdb_footer_bytes) return fail(Errc::damaged);
  const auto sealed = bytes.first(bytes.size() - rdb_checksum_bytes);
  if (load_little_endian<std::uint64_t>(bytes.data() + sealed.size()) != rdb_checksum(sealed))
    return fail(Errc::damaged);
  return sealed.first(sealed.size() - version_bytes);
}

// The shortest form of a length.
void append_rdb_length(std::string& to, std::uint64_t length) {
  constexpr std::uint64_t lengths_of_6_bits = 64;
  constexpr std::uint64_t lengths_of_14_bits = 16384;
  const auto append = [&](std::uint64_t bits) { to += static_cast<char>(bits & 0xff); };
  if (length < lengths_of_6_bits) return append(length);
  if (length < lengths_of_14_bits) {
    append(length >> 8 | 0x40);
    return append(length);
  }
  SEPAL_ASSERT(length <= string_bytes_max, "a string is longer than its dump can say");
  append(0x80);
  for (int shift = 24; shift >= 0; shift -= 8) append(length >> shift);
}

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
  const auto value = value_of_dump(bytes);
  if (!value) return value.error();
  RdbReader reader(*value);
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

bool is_rdb_string(std::span<const std::byte> bytes) {
  return !bytes.empty() && std::to_integer<std::uint8_t>(bytes[0]) == rdb_string_type;
}

bool is_packed_rdb_string(std::span<const std::byte> bytes) {
  constexpr std::uint8_t first_of_packed = 0xc3;
  return is_rdb_string(bytes) && bytes.size() > 1 &&
         std::to_integer<std::uint8_t>(bytes[1]) == first_of_packed;
}

std::string rdb_dump_of(std::string_view string) {
  std::string dump(1, static_cast<char>(rdb_string_type));
  append_rdb_length(dump, string.size());
  dump += string;
  const auto append_integer = [&](auto number) {
    dump.resize(dump.size() + sizeof number);
    store_little_endian(std::as_writable_bytes(std::span(dump)).data() + dump.size() - sizeof number, number);
  };
  append_integer(made_version);
  append_integer(rdb_checksum(std::as_bytes(std::span(dump))));
  return dump;
}

Result<FilterPtr> decode_rdb_string(std::span<const std::byte> bytes, const FilterLimits& limits) {
  const auto value = value_of_dump(bytes);
  if (!value) return value.error();
  RdbReader reader(*value);
  if (reader.byte() != rdb_string_type) return not_a_filter();
  const auto text = reader.text(string_bytes_max);
  if (!text || reader.failed() || !reader.at_end())
    return fail(Errc::out_of_range, "this is no string of Redis");
  return BitString::of(*text, limits);
}

}  // namespace sepal::filter
