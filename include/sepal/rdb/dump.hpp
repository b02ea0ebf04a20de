// A value as Redis's DUMP gives it: one of the RDB format, and a footer.
//
//     1 byte type; the value
//     2 bytes RDB version, little endian; 8 bytes CRC-64 over everything before it, little endian
//
// Any version is taken: the first byte says what the value is, and a module's fields have a version of their
// own.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/rdb/reader.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sepal::rdb {

inline constexpr std::uint8_t string_type = 0;
inline constexpr std::uint8_t module_type = 7;

inline constexpr std::size_t footer_bytes = sizeof(std::uint16_t) + sizeof(std::uint64_t);

// Whether the first byte says that the value is of this type.
[[nodiscard]] bool begins(std::span<const std::byte> dump, std::uint8_t type);
// The dump without its footer. Errors: damaged (the checksum does not match).
Result<std::span<const std::byte>> value_of(std::span<const std::byte> dump);

// Appends the shortest form of a length.
void append_length(std::string& to, std::uint64_t length);
// Appends the footer. `checksum` has all of the dump that stands before `last`.
void append_footer(std::string& last, Checksum checksum);

}  // namespace sepal::rdb
