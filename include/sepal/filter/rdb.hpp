// A filter of RedisBloom as Redis's DUMP gives it: a value of the RDB format, and a footer.
//
//     1 byte type: 7, a module's value
//     module id (length): "MBbloom--", six bits a letter, and ten bits of encoding version: 4
//     fields: items, layer count L, options, expansion; L times, oldest first: capacity, error rate (double),
//             probe count, bits an item (double), bits, n2, bytes (string), items; end
//     2 bytes RDB version, little endian; 8 bytes CRC-64 over everything before it, little endian
//
// rdb_reader.hpp describes fields, lengths and strings. Redis writes a short string that is a decimal number
// as a number; the bits of a filter never are one. Any RDB version is taken: the fields belong to the module,
// and have a version of their own.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/image.hpp>
#include <sepal/filter/rdb_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::filter {

// A filter as it stands in an RDB file or a dump.
struct RdbFilter {
  ImageHeader image;
  std::vector<RdbString> bits;  // where those of each layer are; each has as many bytes as its layer
};

inline constexpr std::uint8_t rdb_string_type = 0;
inline constexpr std::uint8_t rdb_module_type = 7;
// "MBbloom--", and the version of the encoding.
inline constexpr std::uint64_t redisbloom_id = 0x3016e5a289bef804;

// Reads the fields behind the module's id, and their end. Errors: damaged where these are other fields than a
// filter has: then reader.failed(); out_of_range where image_of() refuses the filter, or where it has more
// layers than `layers_max`: then all of its fields are read. Believes nothing; allocates a place for each
// layer.
Result<RdbFilter> read_rdb_filter(RdbReader& reader, std::uint32_t layers_max);

struct RdbDump {
  RdbFilter filter;
  std::span<const std::byte> bytes;  // the dump

  // The memory that filter_of() takes for bitmaps.
  [[nodiscard]] std::uint64_t memory_bytes() const { return filter.image.bitmap_bytes(); }
};

// Whether the first byte begins a dump of some module's value. Nothing of Sepal's own begins with it.
[[nodiscard]] bool is_rdb_dump(std::span<const std::byte> bytes);

// Errors: damaged where the checksum does not match; out_of_range where it does, but this is no filter of
// RedisBloom's that image_of() takes. Believes nothing; allocates a place for each of at most `layers_max`
// layers.
Result<RdbDump> decode_rdb_dump(std::span<const std::byte> bytes, std::uint32_t layers_max);

// The dump's bytes must still be there. Errors: out_of_range where bits cannot be unpacked; those of
// Filter::restore.
Result<FilterPtr> filter_of(const RdbDump& dump, const FilterLimits& limits);

// --- a string: 1 byte type 0, the string, and the same footer
// ------------------------------------------------

// Whether the first byte begins a dump of a string.
[[nodiscard]] bool is_rdb_string(std::span<const std::byte> bytes);
// Whether it begins a dump of a string that is packed.
[[nodiscard]] bool is_packed_rdb_string(std::span<const std::byte> bytes);
[[nodiscard]] std::string rdb_dump_of(std::string_view string);
// The string in a dump. Errors: damaged where the checksum does not match; out_of_range where it does, but
// this is no string; those of BitString::of.
Result<FilterPtr> decode_rdb_string(std::span<const std::byte> bytes, const FilterLimits& limits);

}  // namespace sepal::filter
