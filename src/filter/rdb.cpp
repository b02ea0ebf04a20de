#include <sepal/base/assert.hpp>
#include <sepal/base/endian.hpp>
#include <sepal/filter/bit_string.hpp>
#include <sepal/filter/rdb.hpp>
#include <sepal/filter/redisbloom.hpp>

#include <boost/crc.hpp>

#include <algorithm>
#include <limits>
#include <lzf.h>

#include "rdb_reader.hpp"

namespace sepal::filter {
namespace {

constexpr std::uint8_t type_of_strings = 0;
constexpr std::uint8_t type_of_modules = 7;
// Of the dumps that are made here: every Redis since 5.0 reads them.
constexpr std::uint16_t made_version = 9;
constexpr std::size_t version_bytes = 2;
constexpr std::size_t rdb_checksum_bytes = sizeof(std::uint64_t);
constexpr std::size_t rdb_footer_bytes = version_bytes + rdb_checksum_bytes;

// The module's id, which ends with the version of the encoding.
constexpr std::uint64_t redisbloom_id = 0x3016e5a289bef804;

// The most that LZF makes of three bytes.
static_assert(rdb_growth_max == (0xff + 7 + 2) / 3);

Error not_a_filter() {
  return fail(Errc::out_of_range, "this is not a filter of RedisBloom");
}

// A dump without its footer. Errors: damaged.
Result<std::span<const std::byte>> value_of_dump(std::span<const std::byte> bytes) {
  if (bytes.size() < rdb_footer_bytes) return fail(Errc::damaged);
  const auto sealed = bytes.first(bytes.size() - rdb_checksum_bytes);
  if (load_little_endian<std::uint64_t>(bytes.data() + sealed.size()) != rdb_checksum(sealed))
    return fail(Errc::damaged);
  return sealed.first(sealed.size() - version_bytes);
}

RedisBloomLayer read_layer(RdbReader& reader, std::vector<RdbBits>& bits) {
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

Result<void> unpack(const RdbBits& bits, std::span<std::byte> into) {
  constexpr std::uint64_t bytes_max = std::numeric_limits<unsigned>::max();
  // lzf_decompress() looks at the first byte before it looks at the length.
  if (bits.bytes.empty() || bits.bytes.size() > bytes_max || into.size() > bytes_max) return not_a_filter();
  const unsigned unpacked = lzf_decompress(bits.bytes.data(), static_cast<unsigned>(bits.bytes.size()),
                                           into.data(), static_cast<unsigned>(into.size()));
  if (unpacked != into.size()) return not_a_filter();
  return {};
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

}  // namespace

std::uint64_t RdbDump::memory_bytes() const {
  std::uint64_t packed_max = 0;
  for (const RdbBits& layer : bits)
    if (layer.packed) packed_max = std::max(packed_max, layer.unpacked_bytes);
  return image.bitmap_bytes() + packed_max;
}

bool is_rdb_dump(std::span<const std::byte> bytes) {
  return !bytes.empty() && std::to_integer<std::uint8_t>(bytes[0]) == type_of_modules;
}

Result<RdbDump> decode_rdb_dump(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  const auto value = value_of_dump(bytes);
  if (!value) return value.error();
  RdbReader reader(*value);
  if (reader.byte() != type_of_modules || reader.length() != redisbloom_id) return not_a_filter();
  RedisBloomFilter filter;
  filter.item_count = reader.number();
  const std::uint64_t layer_count = reader.number();
  filter.options = reader.number();
  filter.expansion = reader.number();
  if (layer_count > layers_max) return not_a_filter();
  RdbDump dump;
  for (std::uint64_t i = 0; i < layer_count; ++i) filter.layers.push_back(read_layer(reader, dump.bits));
  reader.end();
  if (reader.failed() || !reader.at_end()) return not_a_filter();

  auto image = image_of(filter);
  if (!image) return fail(Errc::out_of_range, image.error().detail);
  dump.image = std::move(*image);
  return dump;
}

Result<FilterPtr> filter_of(const RdbDump& dump, const FilterLimits& limits) {
  auto filter = Filter::restore(dump.image.options, dump.image.layers, limits);
  if (!filter) return filter;
  std::vector<std::byte> unpacked;
  for (std::uint32_t i = 0; i < dump.bits.size(); ++i) {
    const RdbBits& bits = dump.bits[i];
    if (bits.packed) {
      unpacked.resize(static_cast<std::size_t>(bits.unpacked_bytes));
      if (auto whole = unpack(bits, unpacked); !whole) return whole.error();
    }
    (*filter)->fill_bits(i, 0, bits.packed ? unpacked : bits.bytes);
  }
  return filter;
}

bool is_rdb_string(std::span<const std::byte> bytes) {
  return !bytes.empty() && std::to_integer<std::uint8_t>(bytes[0]) == type_of_strings;
}

bool is_packed_rdb_string(std::span<const std::byte> bytes) {
  return is_rdb_string(bytes) && bytes.size() > 1 &&
         std::to_integer<std::uint8_t>(bytes[1]) == first_of_packed;
}

std::string rdb_dump_of(std::string_view string) {
  std::string dump(1, static_cast<char>(type_of_strings));
  append_rdb_length(dump, string.size());
  dump += string;
  dump.resize(dump.size() + version_bytes);
  store_little_endian(std::as_writable_bytes(std::span(dump)).data() + dump.size() - version_bytes,
                      made_version);
  const std::uint64_t checksum = rdb_checksum(std::as_bytes(std::span(dump)));
  dump.resize(dump.size() + rdb_checksum_bytes);
  store_little_endian(std::as_writable_bytes(std::span(dump)).data() + dump.size() - rdb_checksum_bytes,
                      checksum);
  return dump;
}

Result<FilterPtr> decode_rdb_string(std::span<const std::byte> bytes, const FilterLimits& limits) {
  const auto value = value_of_dump(bytes);
  if (!value) return value.error();
  RdbReader reader(*value);
  if (reader.byte() != type_of_strings) return not_a_filter();
  std::string digits;
  const RdbBits string = reader.string(digits);
  if (reader.failed() || !reader.at_end()) return fail(Errc::out_of_range, "this is no string of Redis");
  if (string.unpacked_bytes > string_bytes_max)
    return fail(Errc::too_large, "a string is longer than 512 MB");
  if (!string.packed)
    return BitString::of({reinterpret_cast<const char*>(string.bytes.data()), string.bytes.size()}, limits);
  std::string unpacked(static_cast<std::size_t>(string.unpacked_bytes), '\0');
  if (auto whole = unpack(string, std::as_writable_bytes(std::span(unpacked))); !whole) return whole.error();
  return BitString::of(unpacked, limits);
}

std::uint64_t rdb_checksum(std::span<const std::byte> bytes) {
  boost::crc_optimal<64, 0xad93d23594c935a9, 0, 0, true, true> checksum;
  checksum.process_bytes(bytes.data(), bytes.size());
  return checksum.checksum();
}

}  // namespace sepal::filter
