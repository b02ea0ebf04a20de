// A filter as Redis's DUMP gives it: a value of the RDB format, and a footer. RedisBloom and Sepal's own
// module (sepal.so) have written it; sepald answers it as well.
//
//     1 byte type: 7, a module's value
//     module id (length): "MBbloom--", six bits a letter, and ten bits of encoding version
//     fields of version 4, RedisBloom's: items, layer count L, options, expansion; L times, oldest first:
//             capacity, error rate (double), probe count, bits an item (double), bits, n2, bytes (string),
//             items; end
//     fields of version 512, Sepal's: the image header (string, image.hpp); the bitmaps of all layers, one
//             behind the other, oldest first, in strings of 1 MiB, of which the last has what is left, and
//             an empty one stands for zeros; end
//     the footer of every dump (rdb/dump.hpp)
//
// rdb/reader.hpp describes fields, lengths and strings. Redis writes a short string that is a decimal number
// as a number; the bits of a filter never are one.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/rdb/reader.hpp>
#include <sepal/value/module_payload.hpp>
#include <sepal/value/module_type.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sepal::bloom {

// A string with some of a filter's bits.
struct RdbBits {
  rdb::String string;            // an empty one stands for zeros
  std::uint64_t byte_count = 0;  // of the bitmaps
};

// A filter as it stands in an RDB file or a dump.
struct RdbFilter {
  ImageHeader image;
  std::vector<RdbBits> bits;  // of the bitmaps of all layers, one behind the other, oldest first
};

inline constexpr std::uint32_t redisbloom_encoding = 4;
inline constexpr std::uint32_t sepal_encoding = 512;
inline constexpr std::uint64_t rdb_piece_bytes = value::module_piece_bytes;
// "MBbloom--", and the version of the encoding.
inline constexpr std::uint64_t rdb_type_id = 0x3016e5a289bef800;
inline constexpr std::uint64_t redisbloom_id = rdb_type_id | redisbloom_encoding;
inline constexpr std::uint64_t sepal_id = rdb_type_id | sepal_encoding;
static_assert(sepal_id == value::module_id("MBbloom--", sepal_encoding));

// Reads the fields behind a module's id, which is redisbloom_id or sepal_id, and their end. Errors: damaged
// where these are other fields than a filter has: then reader.failed(); out_of_range where no filter can be
// like that, layer_limit where it has more layers than `layers_max`: then all of its fields are read.
// Believes nothing; allocates a place for each string that is there.
Result<RdbFilter> read_rdb_filter(rdb::Reader& reader, std::uint64_t id, std::uint32_t layers_max);

struct RdbDump {
  RdbFilter filter;
  std::span<const std::byte> bytes;  // the dump

  // The memory that filter_of() takes for bitmaps.
  [[nodiscard]] std::uint64_t memory_bytes() const { return filter.image.bitmap_bytes(); }
};

// Errors: damaged where the checksum does not match; out_of_range where it does, but this is no filter;
// layer_limit. Believes nothing; allocates a place for each string that is there.
Result<RdbDump> decode_rdb_dump(std::span<const std::byte> bytes, std::uint32_t layers_max);

// The most bytes that the bitmaps of the filter in a dump can take. Believes nothing, and reads no more than
// the dump's begin: a dump that is none has some number.
[[nodiscard]] std::uint64_t rdb_bitmap_bytes_max(std::span<const std::byte> bytes, std::uint32_t layers_max);

// The dump's bytes must still be there. Errors: out_of_range where bits cannot be unpacked; those of
// Filter::restore.
Result<FilterPtr> filter_of(const RdbDump& dump, const FilterLimits& limits);

}  // namespace sepal::bloom
