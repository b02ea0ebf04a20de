// The payloads that RESTORE takes: Redis's dumps of the kinds that have one (value::Payload), which DUMP
// answers as well; and what DUMP answers of a kind that has none, and DUMP of Sepal 0.1.0 answered of all:
//
//     image (value/kind_row.hpp)  version (2 bytes)  checksum over everything before it (8 bytes)
//
// All numbers are little endian. The checksum is XXH3, 64 bits.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/value/kind_row.hpp>

#include <cstdint>
#include <string_view>

namespace sepal::command {

// How DUMP writes a value: its write() and the two counts.
[[nodiscard]] const value::Payload& payload_of(const value::Value& value);

// The most bytes that the payload and its value can take. Looks at the payload's begin only.
[[nodiscard]] std::uint64_t restored_bytes_max(std::string_view payload, std::uint32_t layers_max);

// Errors: damaged (not a payload, or a changed one), out_of_range (the payload is intact, but does not hold a
// possible value), too_large, out_of_memory, and the errors of `hold`.
Result<value::ValuePtr> value_of_payload(std::string_view payload, const value::Limits& limits,
                                         const value::Hold& hold);

}  // namespace sepal::command
