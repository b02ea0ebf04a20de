// The memory that values are made of.
//
// In sepald it is the allocator's, and large values are mappings of their own. A host that counts and limits
// the memory of its process gives its own functions. Then every value is from them, and every large bitmap as
// well.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

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

// Whole pages within these bytes of an allocation become zeros that take no memory, until they are written.
// Returns their bytes. A host's memory stays as it is.
std::size_t heap_give_back(std::span<std::byte> bytes);

// What an allocation really takes, so that a million small values are accounted for at their true size. The
// size classes of jemalloc, which sepald and most hosts have: 8, steps of 16 up to 128, and then four steps
// for each doubling. The end of a class that is longer than some pages is never touched.
[[nodiscard]] std::uint64_t heap_footprint(std::uint64_t bytes);

}  // namespace sepal::value
