// A filter of RedisBloom as Redis's DUMP gives it: a value of the RDB format, and a footer.
//
//     1 byte type: 7, a module's value
//     module id (length): "MBbloom--", six bits a letter, and ten bits of encoding version: 4
//     fields: items, layer count L, options, expansion; L times, oldest first: capacity, error rate (double),
//             probe count, bits an item (double), bits, n2, bytes (string), items; end
//     2 bytes RDB version, little endian; 8 bytes CRC-64 over everything before it, little endian
//
//     field    opcode (length) and value: 2 a length; 4 a double, little endian; 5 a string; 0 the end,
//              with no value
//     length   by the first byte: 00nnnnnn six bits; 01nnnnnn and one byte, 14 bits; 0x80 and 4 bytes;
//              0x81 and 8 bytes; all big endian
//     string   length and bytes; or 0xc3, packed length, length, and bytes that are packed as LZF; or 0xc0,
//              0xc1, 0xc2 and a number of 1, 2 or 4 bytes, little endian, whose decimal digits are the string
//
// Any RDB version is taken: the fields belong to the module, and have a version of their own.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/image.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::filter {

// The bits of one layer, as they stand in the dump.
struct RdbBits {
  std::span<const std::byte> bytes;
  std::uint64_t unpacked_bytes = 0;
  bool packed = false;  // false: `bytes` are the bits themselves
};

// Its spans point into the dump.
struct RdbDump {
  ImageHeader image;
  std::vector<RdbBits> bits;  // one for each layer

  // About the memory that filter_of() takes: bitmaps, and the largest string that has to be unpacked.
  [[nodiscard]] std::uint64_t memory_bytes() const;
};

// Whether the first byte begins a dump of some module's value. Nothing of Sepal's own begins with it.
[[nodiscard]] bool is_rdb_dump(std::span<const std::byte> bytes);

// A filter has at most so many bytes for each byte of its dump.
inline constexpr std::uint64_t rdb_growth_max = 88;

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

// CRC-64 of Jones, reflected, from 0.
[[nodiscard]] std::uint64_t rdb_checksum(std::span<const std::byte> bytes);

}  // namespace sepal::filter
