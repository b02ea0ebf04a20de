// The parts of which a value was made, as one run of bytes for a record (Remade). For each: the length of its
// key, 32 bits little-endian; how much of it was taken, 32 bits; the bytes of the key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::keyspace {

struct Part {
  std::string_view key;
  std::uint32_t extent = 0;  // KindRow::Part

  friend bool operator==(const Part&, const Part&) = default;
};

// How many layers of the part were taken.
[[nodiscard]] constexpr std::uint32_t layers_of(const Part& part) {
  return part.extent & 0xffff;
}

// Beside the bytes of the key.
inline constexpr std::size_t part_head_bytes = 8;

// Each key is at most key_bytes_max long.
[[nodiscard]] std::vector<std::byte> encode_parts(std::span<const Part> parts);
// The views point into `bytes`. Nothing where the bytes are no list. Believes nothing.
[[nodiscard]] std::optional<std::vector<Part>> decode_parts(std::span<const std::byte> bytes);

}  // namespace sepal::keyspace
