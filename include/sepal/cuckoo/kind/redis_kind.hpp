// The kind of value that RedisBloom's cuckoo filters are.
#pragma once

#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sepal::cuckoo {

extern const value::KindRow redis_row;

// The image of a filter with this header. Its body is the slots of all layers, oldest first, with zeros
// behind them up to a whole word. So a tool writes an image without a filter in memory.
inline constexpr std::size_t redis_image_head_bytes = 48;
[[nodiscard]] value::Shape redis_image_shape(const RedisHeader& header);
[[nodiscard]] std::array<std::byte, redis_image_head_bytes> redis_image_head(const RedisHeader& header);

// The numbers of changes, and what their records have.
enum class RedisChange : std::uint8_t {
  added = 0,      // hashes: an item for each was added
  removed = 1,    // hashes: a copy for each was removed
  compacted = 2,  // nothing
  written = 3,    // written_head(), and bytes that came in a chunk
};

// Where bytes were written: their place among the slots of all layers.
inline constexpr std::size_t redis_written_head_bytes = sizeof(std::uint64_t);
[[nodiscard]] std::array<std::byte, redis_written_head_bytes> redis_written_head(std::uint64_t offset);

}  // namespace sepal::cuckoo
