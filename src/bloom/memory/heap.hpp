// The memory that filters are made of: the C library's, or that of the host (filter/memory.hpp).
#pragma once

#include <cstddef>

namespace sepal::bloom {

// Whether the host has given functions of its own.
[[nodiscard]] bool host_allocates();

// Zeroed; null when there is none. heap_release() takes it back, and ignores null.
[[nodiscard]] void* heap_allocate(std::size_t byte_count);
void heap_release(void* allocated);

// The same at the begin of a cache line. `byte_count` is a multiple of a cache line.
[[nodiscard]] void* heap_allocate_lines(std::size_t byte_count);
void heap_release_lines(void* allocated);
// The bytes that heap_allocate_lines() asks for.
[[nodiscard]] std::size_t heap_line_bytes(std::size_t byte_count);

}  // namespace sepal::bloom
