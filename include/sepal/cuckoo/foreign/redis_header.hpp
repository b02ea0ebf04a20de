// What RedisBloom says of one of its cuckoo filters in numbers, and where the slots of the filter are in a
// dump (CF.SCANDUMP, CF.LOADCHUNK).
//
// A filter has layers (RedisBloom: sub-filters), oldest first. Layer i has bucket_count * expansion^i buckets
// of bucket_slots slots. A slot is one byte: 0 if it is empty, else the fingerprint of an item. The slots of
// a layer stand one behind the other, bucket after bucket.
//
// The header of a dump, little endian, packed:
//
//     offset  size  field
//     0       8     items
//     8       8     buckets of the oldest layer
//     16      8     items deleted since the last compaction
//     24      8     layers
//     32      2     slots of a bucket
//     34      2     kicks at most
//     36      2     expansion
//
// The slots of all layers follow. An iterator counts them: 0 asks for the header, which comes with 1; then 1
// plus an offset asks for slots, which come with 1 plus the offset behind them. CF.LOADCHUNK takes a piece
// with the iterator that came with it. No piece has slots of two layers.
#pragma once

#include <sepal/base/result.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sepal::cuckoo {

// The ranges that RedisBloom accepts in a header.
inline constexpr std::uint32_t redis_layers_max = 65535;
inline constexpr std::uint16_t redis_bucket_slots_max = 255;
inline constexpr std::uint16_t redis_expansion_max = 32768;
inline constexpr std::uint64_t redis_buckets_max = std::uint64_t{1} << 55;  // of one layer

inline constexpr std::size_t redis_header_bytes = 38;
inline constexpr std::uint64_t redis_piece_bytes_max = std::uint64_t{16} << 20;

struct RedisHeader {
  // Every copy of an item. RedisBloom believes the counts of a header: a filter whose header counts too few
  // items counts below 0, and wraps.
  std::uint64_t item_count = 0;
  std::uint64_t bucket_count = 1;  // of the oldest layer: a power of two
  std::uint64_t delete_count = 0;  // since the last compaction
  std::uint32_t layer_count = 1;
  std::uint16_t bucket_slots = 2;
  std::uint16_t kicks_max = 20;  // MAXITERATIONS; at least 1
  std::uint16_t expansion = 1;   // a power of two; 0: the filter does not grow

  // Of a sound header and a layer that it has, or that it may get next.
  [[nodiscard]] std::uint64_t layer_buckets(std::uint32_t layer) const;
  // The slots of a layer, and of all layers. A slot is a byte.
  [[nodiscard]] std::uint64_t layer_slots(std::uint32_t layer) const {
    return layer_buckets(layer) * bucket_slots;
  }
  [[nodiscard]] std::uint64_t slot_count() const;
  // What CF.INFO calls the size.
  [[nodiscard]] std::uint64_t told_bytes() const;

  friend bool operator==(const RedisHeader&, const RedisHeader&) = default;
};

// What CF.RESERVE takes, each within the range that it accepts.
struct RedisOptions {
  std::uint64_t capacity = 1024;
  std::uint16_t bucket_slots = 2;
  std::uint16_t kicks_max = 20;
  std::uint16_t expansion = 1;  // rounded up to a power of two
};

// The header of a filter that RedisBloom has just made.
[[nodiscard]] RedisHeader redis_header_of(const RedisOptions& options);

// Whether a filter can have this shape; all sums above are below 2^64 then. Errors: out_of_range.
// RedisBloom accepts one shape more: an expansion that is no power of two. It never makes one, and loses
// items of a filter that has one.
Result<void> check_redis_header(const RedisHeader& header);

[[nodiscard]] std::array<std::byte, redis_header_bytes> encode_redis_header(const RedisHeader& header);
// Errors: damaged (not as long as a header: "Invalid header"), out_of_range (check_redis_header()).
Result<RedisHeader> decode_redis_header(std::span<const std::byte> bytes);

// A run of a layer's slots.
struct RedisPiece {
  std::uint32_t layer = 0;
  std::uint64_t offset = 0;  // in the layer
  std::uint64_t byte_count = 0;
  std::int64_t iterator = 0;  // that comes with the piece
};

// The piece that CF.SCANDUMP answers for an iterator above 0; nothing at the end. (For a filter of no items
// RedisBloom answers the end at once, also for 0.) An iterator within a short layer gets the rest of the
// layer; RedisBloom answers the whole layer there, with an iterator that it takes back nowhere.
[[nodiscard]] std::optional<RedisPiece> redis_piece_at(const RedisHeader& header, std::int64_t iterator);
// Where CF.LOADCHUNK puts a piece that comes with this iterator, which is not 0 ("Invalid position") and not
// 1 (a header). Nothing where it does not lie within one layer, or is empty: "Couldn't load chunk!".
[[nodiscard]] std::optional<RedisPiece> redis_place_of(const RedisHeader& header, std::int64_t iterator,
                                                       std::uint64_t byte_count);

}  // namespace sepal::cuckoo
