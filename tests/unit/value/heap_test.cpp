#include <sepal/value/heap.hpp>
#include <sepal/value/page_sizes.hpp>

#include <algorithm>
#include <malloc.h>
#include <sys/mman.h>
#include <vector>

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

TEST_CASE("lines are zeros, also where freed memory is used again") {
  constexpr std::size_t line_bytes = 64;
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  for (const std::size_t bytes :
       {line_bytes, mebibyte - line_bytes, mebibyte, 3 * mebibyte + 5 * line_bytes}) {
    CAPTURE(bytes);
    for (int round = 0; round < 4; ++round) {
      auto* const lines = static_cast<unsigned char*>(value::heap_allocate_lines(bytes));
      REQUIRE(lines != nullptr);
      CHECK(reinterpret_cast<std::uintptr_t>(lines) % line_bytes == 0);
      CHECK(std::all_of(lines, lines + bytes, [](unsigned char byte) { return byte == 0; }));
      std::fill_n(lines, bytes, static_cast<unsigned char>(0xff));
      value::heap_release_lines(lines);
    }
  }
}

TEST_CASE("many lines take no memory until they are written") {
  const std::size_t page_bytes = value::page_sizes().small_bytes();
  constexpr std::size_t bytes = std::size_t{64} << 20;
  auto* const lines = static_cast<unsigned char*>(value::heap_allocate_lines(bytes));
  REQUIRE(lines != nullptr);
  const auto first = reinterpret_cast<std::uintptr_t>(lines) / page_bytes * page_bytes + page_bytes;
  std::vector<unsigned char> resident(bytes / page_bytes - 1);
  REQUIRE(mincore(reinterpret_cast<void*>(first), resident.size() * page_bytes, resident.data()) == 0);
  CHECK(std::none_of(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }));
  value::heap_release_lines(lines);
}

}  // namespace

}  // namespace heap_test
