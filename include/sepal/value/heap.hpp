// The memory that values are made of.
//
// In sepald it is the C library's, and large values are mappings of their own. A host that counts and limits
// the memory of its process gives its own functions. Then every value is from them, and every large bitmap as
// well.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sepal::value {

struct Allocator {
  // Zeroed memory, aligned for any basic type; null when there is none. Any thread.
  void* (*allocate)(std::size_t byte_count);
  // What allocate() returned. Any thread.
  void (*release)(void* allocated);
};

// Before the first value is made, and not again.
void use_allocator(const Allocator& allocator);
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

// What an allocation really takes, so that a million small values are accounted for at their true size. As
// glibc allocates: eight bytes more for each allocation, in steps of sixteen, and no fewer than two steps.
[[nodiscard]] constexpr std::uint64_t heap_footprint(std::uint64_t bytes) {
  constexpr std::uint64_t own_bytes = 8;
  constexpr std::uint64_t step_bytes = 16;
  return std::max(2 * step_bytes, (bytes + own_bytes + step_bytes - 1) / step_bytes * step_bytes);
}

}  // namespace sepal::value
