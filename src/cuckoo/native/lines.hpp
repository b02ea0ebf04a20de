// Memory for the lines of cells.
#pragma once

#include <sepal/value/heap.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sepal::cuckoo {

struct HeapLines {
  void operator()(std::uint64_t* lines) const { value::heap_release_lines(lines); }
};
using Lines = std::unique_ptr<std::uint64_t[], HeapLines>;

// Zeros; null when there is no memory.
[[nodiscard]] inline Lines make_lines(std::size_t byte_count) {
  return Lines(static_cast<std::uint64_t*>(value::heap_allocate_lines(byte_count)));
}

}  // namespace sepal::cuckoo
