// The payload that DUMP answers and RESTORE takes:
//
//     image (filter/image.hpp)  version (2 bytes)  checksum over everything before it (8 bytes)
//
// All numbers are little endian. The checksum is XXH3, 64 bits. RESTORE also takes Redis's dumps of
// RedisBloom filters and of strings (filter/rdb.hpp). A string is dumped as Redis does it.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/filter/frozen.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

[[nodiscard]] std::uint64_t payload_byte_count(const filter::Frozen& filter);
// In pieces, for Reply::bulk_later. Errors: io (`go_on` returned false).
Result<std::vector<std::string>> payload_of(const filter::Frozen& filter, const filter::GoOn& go_on);

// The most bytes that the filter in this payload can take. Looks at the payload's length and first byte only.
[[nodiscard]] std::uint64_t restored_bytes_max(std::string_view payload);

// Called before a filter is allocated, with the bytes that it is going to take. Errors: memory_limit.
using Hold = std::function<Result<void>(std::uint64_t byte_count)>;

// `hold` may be empty. Errors: damaged (not a payload, or a changed one), out_of_range (the payload is
// intact, but does not hold a possible filter), too_large, out_of_memory, and the errors of `hold`.
Result<filter::FilterPtr> filter_of_payload(std::string_view payload, const filter::FilterLimits& limits,
                                            const Hold& hold);

}  // namespace sepal::command
