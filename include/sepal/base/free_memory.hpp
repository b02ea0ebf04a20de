// How memory goes back to the system.
#pragma once

#include <cstddef>

namespace sepal {

// An allocation of so many bytes or more is mapped by itself (app/machine.cpp tells the allocator so). It
// goes back to the system when it is freed, and to free it costs little. Memory of smaller allocations lies
// in a heap that goes back all at once, which for 100 MB takes ten milliseconds. So what is large is
// allocated in blocks of this size.
inline constexpr std::size_t mapped_allocation_min = std::size_t{4} << 20;

// Empties a string or a vector. An assignment of an empty one may keep the allocation: a short string is
// copied into it.
template <class Container>
void free_memory(Container& container) {
  Container().swap(container);
}

}  // namespace sepal
