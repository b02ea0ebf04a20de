// What DUMP answers and RESTORE takes:
//
//     image (filter/image.hpp)  version (2 bytes)  checksum over everything before it (8 bytes)
//
// All numbers are little endian. The checksum is XXH3, 64 bits. RESTORE takes what Redis dumps of
// RedisBloom's filters as well (filter/rdb.hpp).
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/frozen.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sepal::command {

[[nodiscard]] std::uint64_t payload_byte_count(const filter::Frozen& filter);
// Errors: io (given up).
Result<std::string> payload_of(const filter::Frozen& filter, const filter::GoOn& go_on);

// Of the filter that is in a payload of so many bytes, without looking further than its first one.
[[nodiscard]] std::uint64_t restored_bytes_max(std::string_view payload);

// Is told what a filter is about to take, before that is allocated. Errors: memory_limit.
using Hold = std::function<Result<void>(std::uint64_t byte_count)>;

// Errors: damaged (no payload, or not as it was), out_of_range (nothing that a filter could be), too_large,
// out_of_memory; those of `hold`, which may be empty.
Result<filter::FilterPtr> filter_of_payload(std::string_view payload, const filter::FilterLimits& limits,
                                            const Hold& hold);

}  // namespace sepal::command
