// The row of strings (value/kind_row.hpp), the head of their image, and the bytes of their records.
#pragma once

#include <sepal/strings/string.hpp>
#include <sepal/value/kind_row.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sepal::strings {

extern const value::KindRow string_row;

// --- the image, for programs that write one without a String ----------------------------------------------
//
// docs/formats.md has the head ("The image header"). The body has the bytes, and zeros up to a whole word.

inline constexpr std::size_t image_head_bytes = 88;
using ImageHead = std::array<std::byte, image_head_bytes>;

// The head and the body of the image of a string that has so many bytes, at most string_bytes_max.
[[nodiscard]] ImageHead image_head(std::uint64_t byte_count);
[[nodiscard]] std::uint64_t image_body_bytes(std::uint64_t byte_count);

// --- records ----------------------------------------------------------------------------------------------
//
//     written   8 offset, 4 byte count, 4 zero; the bytes. It makes the string where there is none
//     added     in the low half of each, the position of a bit that was set

inline constexpr std::uint8_t written_change = 0;

inline constexpr std::size_t written_head_bytes = 16;
[[nodiscard]] std::array<std::byte, written_head_bytes> written_head(std::uint64_t offset,
                                                                     std::size_t byte_count);

}  // namespace sepal::strings
