// The payloads that RESTORE takes: Redis's dumps of filters and of strings (filter/rdb.hpp), which DUMP
// answers as well, and what DUMP of Sepal 0.1.0 answered before:
//
//     image (filter/image.hpp)  version (2 bytes)  checksum over everything before it (8 bytes)
//
// All numbers are little endian. The checksum is XXH3, 64 bits.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/filter/frozen.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// The most bytes that the payload and its filter can take. Looks at the payload's begin only.
[[nodiscard]] std::uint64_t restored_bytes_max(std::string_view payload, std::uint32_t layers_max);

// Called before a filter is allocated, with the bytes that it is going to take. Errors: memory_limit.
using Hold = std::function<Result<void>(std::uint64_t byte_count)>;

// `hold` may be empty. Errors: damaged (not a payload, or a changed one), out_of_range (the payload is
// intact, but does not hold a possible filter), too_large, out_of_memory, and the errors of `hold`.
Result<bloom::FilterPtr> filter_of_payload(std::string_view payload, const bloom::FilterLimits& limits,
                                           const Hold& hold);

}  // namespace sepal::command
