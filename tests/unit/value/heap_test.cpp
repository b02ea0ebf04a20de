#include <sepal/value/heap.hpp>

#include <malloc.h>

#include "support/catch.hpp"

namespace heap_test {

namespace {

namespace value = sepal::value;

struct Free {
  void operator()(void* allocated) const { std::free(allocated); }
};

// The least of several allocations. If the allocator uses freed memory again, and the rest is too small for
// another allocation, it leaves the rest with this one.
std::size_t usable_bytes(std::size_t bytes) {
  std::array<std::unique_ptr<void, Free>, 32> allocated;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (auto& each : allocated) {
    each.reset(std::malloc(bytes));
    least = std::min(least, malloc_usable_size(each.get()));
  }
  return least;
}

TEST_CASE("an allocation counts as many bytes as jemalloc takes for it") {
  // A sanitizer's allocator gives what it is asked for.
  if (usable_bytes(1) == 1) return;
  for (std::size_t bytes = 1; bytes <= 5000; ++bytes) {
    CAPTURE(bytes);
    REQUIRE(value::heap_footprint(bytes) == usable_bytes(bytes));
  }
}

}  // namespace

}  // namespace heap_test
