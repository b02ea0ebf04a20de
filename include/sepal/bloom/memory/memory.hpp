// How many sparse strings the process may have.
#pragma once

#include <cstdint>

namespace sepal::bloom {

// Each sparse string (bit_string.hpp) reserves 512 MiB of addresses, in two mappings. Where the system gives
// a process no further mapping, it gives it no memory at all. So sparse strings take at most three quarters
// of the mappings that a process may have, and in any case half of the addresses of an x86-64.
inline constexpr std::uint64_t sparse_strings_max = 131'072;

// Begins that limit: `process_max` is how many mappings the system allows the process. From now on a further
// sparse string is refused with mapping_limit; those that are there stay, and may grow. Several threads that
// make strings at once may pass the limit by one each. Before the call there is no limit, so that a start
// loads whatever was saved. Any thread.
void limit_string_mappings(std::uint64_t process_max);

}  // namespace sepal::bloom
