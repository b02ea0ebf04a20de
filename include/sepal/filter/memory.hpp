// Where the memory of filters comes from.
//
// In sepald it is the C library's, and large bitmaps are mappings of their own. A host that counts and limits
// the memory of its process gives its own functions. Then every filter and every bitmap is from them, the
// large ones as well.
#pragma once

#include <cstddef>

namespace sepal::filter {

struct Allocator {
  // Zeroed memory, aligned for any basic type; null when there is none. Any thread.
  void* (*allocate)(std::size_t byte_count);
  // What allocate() returned. Any thread.
  void (*release)(void* allocated);
};

// Before the first filter is made, and not again.
void use_allocator(const Allocator& allocator);

}  // namespace sepal::filter
