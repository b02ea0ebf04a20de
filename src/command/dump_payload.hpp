// What DUMP answers and RESTORE takes:
//
//     image (filter/image.hpp)  version (2 bytes)  checksum over everything before it (8 bytes)
//
// All numbers are little endian. The checksum is XXH3, 64 bits.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/frozen.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace sepal::command {

[[nodiscard]] std::uint64_t payload_byte_count(const filter::Frozen& filter);
// Errors: io (given up).
Result<std::string> payload_of(const filter::Frozen& filter, const filter::GoOn& go_on);

// Errors: damaged (no payload, or not as it was), out_of_range (nothing that a filter could be), too_large,
// out_of_memory.
Result<filter::FilterPtr> filter_of_payload(std::string_view payload, const filter::FilterLimits& limits);

}  // namespace sepal::command
