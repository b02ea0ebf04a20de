// A dump may come from any client. The order here is: the checksum, the fields, the sizes that they claim,
// and only then the memory for them. The bits of a dump stay where they are until filter_of(): RdbBits only
// notes where they stand. So a dump of RedisBloom, and a file of any size (`sepal convert`), need no second
// copy of the bits.
#include <sepal/base/assert.hpp>
#include <sepal/bloom/foreign/rdb.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>
#include <sepal/rdb/dump.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace sepal::bloom {
namespace {

// Bits are filled in by pieces of this length.
constexpr std::size_t fill_bytes = 64 << 10;

Error not_a_filter() {
  return fail(Errc::out_of_range, "this is no filter");
}

Result<RdbFilter> read_foreign(rdb::Reader& reader, std::uint32_t layers_max) {
  RdbFilter found;
  const auto filter = read_redisbloom(reader, layers_max, [&] {
    const rdb::String string = reader.bits();
    found.bits.push_back({.string = string, .byte_count = string.unpacked_bytes});
    return string.unpacked_bytes;
  });
  // The fields of a filter that is refused are read to their end: in a file, the next key comes behind them.
  filter ? reader.end() : reader.skip_fields();
  if (reader.failed()) return fail(Errc::damaged, "these are not the fields of a filter of RedisBloom");
  if (!filter) return too_many_layers(layers_max);
  auto image = image_of(*filter);
  if (!image) return fail(Errc::out_of_range, image.error().detail);
  found.image = std::move(*image);
  return found;
}

// Reads all strings that the bitmaps have. False where one is of another length; then the caller skips the
// fields that are left, so that a reader of a file finds the next key.
bool read_pieces(rdb::Reader& reader, RdbFilter& filter) {
  const std::uint64_t bitmap_bytes = filter.image.bitmap_bytes();
  for (std::uint64_t offset = 0; offset < bitmap_bytes && !reader.failed(); offset += rdb_piece_bytes) {
    const std::uint64_t byte_count = std::min(rdb_piece_bytes, bitmap_bytes - offset);
    const rdb::String string = reader.bits();
    if (string.unpacked_bytes != 0 && string.unpacked_bytes != byte_count) return false;
    filter.bits.push_back({.string = string, .byte_count = byte_count});
  }
  return true;
}

Result<RdbFilter> read_sepal(rdb::Reader& reader, std::uint32_t layers_max) {
  // A longer header names more layers than are allowed, so it is not even read.
  const auto text = reader.text_field(image_bytes(layers_max));
  RdbFilter found;
  bool is_filter = false;
  if (text) {
    if (auto header = decode_value_header(std::as_bytes(std::span(*text)), layers_max)) {
      found.image = std::move(*header);
      is_filter = read_pieces(reader, found);
    }
  }
  if (is_filter) {
    reader.end();
  } else {
    reader.skip_fields();
  }
  if (reader.failed()) return fail(Errc::damaged, "these are not the fields of a filter of Sepal");
  if (!text) return too_many_layers(layers_max);
  if (!is_filter) return fail(Errc::out_of_range, "no filter has this header, or bits of this length");
  return found;
}

Result<void> fill(Filter& filter, std::uint64_t offset, const rdb::String& bits, rdb::Bytes& bytes) {
  rdb::StringReader reader(bits, bytes);
  std::vector<std::byte> piece(
      static_cast<std::size_t>(std::min<std::uint64_t>(fill_bytes, bits.unpacked_bytes)));
  for (std::uint64_t at = 0; at < bits.unpacked_bytes;) {
    const auto part = std::span(piece).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bits.unpacked_bytes - at)));
    // The input is in memory, so an error can only mean that the bits do not unpack.
    if (!reader.read(part)) return not_a_filter();
    fill_bits(filter, offset + at, part);
    at += part.size();
  }
  return {};
}

}  // namespace

Result<RdbFilter> read_rdb_filter(rdb::Reader& reader, std::uint64_t id, std::uint32_t layers_max) {
  SEPAL_ASSERT(id == redisbloom_id || id == sepal_id, "the fields are of an encoding that is known");
  return id == sepal_id ? read_sepal(reader, layers_max) : read_foreign(reader, layers_max);
}

Result<RdbDump> decode_rdb_dump(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  const auto value = rdb::value_of(bytes);
  if (!value) return value.error();
  rdb::Reader reader(*value);
  if (reader.byte() != rdb::module_type) return not_a_filter();
  const std::uint64_t id = reader.length();
  if (id != redisbloom_id && id != sepal_id) return not_a_filter();
  auto filter = read_rdb_filter(reader, id, layers_max);
  // The checksum was right, so the dump is as it was made. It is not damaged: it is no filter.
  if (!filter && filter.error().code == Errc::layer_limit) return filter.error();
  if (!filter || !reader.at_end())
    return filter ? not_a_filter() : fail(Errc::out_of_range, filter.error().detail);
  return RdbDump{.filter = std::move(*filter), .bytes = bytes};
}

std::uint64_t rdb_bitmap_bytes_max(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  rdb::Reader reader(bytes);
  if (reader.byte() == rdb::module_type && reader.length() == sepal_id) {
    // The header names the size. The bits are not looked at: an empty string stands for a megabyte of zeros,
    // so a small dump may be a large filter.
    const auto text = reader.text_field(image_bytes(layers_max));
    if (!text) return 0;
    const auto header = decode_value_header(std::as_bytes(std::span(*text)), layers_max);
    return header ? header->bitmap_bytes() : 0;
  }
  // RedisBloom's bits are strings in the dump, which may be packed.
  return bytes.size() * rdb::growth_max;
}

Result<FilterPtr> filter_of(const RdbDump& dump, const FilterLimits& limits) {
  const ImageHeader& image = dump.filter.image;
  auto filter = Filter::restore(image.options, image.layers, limits);
  if (!filter) return filter;
  rdb::BytesInMemory bytes(dump.bytes);
  std::uint64_t offset = 0;
  for (const RdbBits& bits : dump.filter.bits) {
    if (auto filled = fill(**filter, offset, bits.string, bytes); !filled) return filled.error();
    offset += bits.byte_count;
  }
  return filter;
}

}  // namespace sepal::bloom
