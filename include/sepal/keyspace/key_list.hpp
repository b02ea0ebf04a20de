// Keys as one run of bytes, for a record that names several: the length of each, 32 bits little-endian, and
// its bytes behind that.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sepal::keyspace {

[[nodiscard]] std::size_t key_list_bytes(std::span<const std::string_view> keys);
// Each key is at most key_bytes_max long.
[[nodiscard]] std::vector<std::byte> encode_keys(std::span<const std::string_view> keys);
// The views point into `bytes`. Nothing where the bytes are no list. Believes nothing.
[[nodiscard]] std::optional<std::vector<std::string_view>> decode_keys(std::span<const std::byte> bytes);

}  // namespace sepal::keyspace
