#include <sepal/base/assert.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/page_sizes.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>

namespace sepal::value {
namespace {

constexpr std::size_t line_bytes = 64;  // of a cache
// The pages of so many bytes come when they are written: to write zeros into a gigabyte takes a second, for
// which a worker would stop.
constexpr std::size_t untouched_bytes_min = std::size_t{1} << 20;

// Written once, before there are other threads that make values.
Allocator host{.allocate = nullptr, .release = nullptr};

void make_zeros(std::span<std::byte> bytes) {
  const std::size_t given_back = bytes.size() < untouched_bytes_min ? 0 : heap_give_back(bytes);
  if (given_back == 0) {
    std::memset(bytes.data(), 0, bytes.size());
    return;
  }
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(bytes.data()) % page_sizes().small_bytes();
  std::memset(bytes.data(), 0, before);
  const std::span<std::byte> behind = bytes.subspan(before + given_back);
  std::memset(behind.data(), 0, behind.size());
}

}  // namespace

void use_allocator(const Allocator& allocator) {
  SEPAL_ASSERT(!host_allocates(), "the allocator of values is chosen once");
  host = allocator;
}

bool host_allocates() {
  return host.allocate != nullptr;
}

void* heap_allocate(std::size_t byte_count) {
  return host_allocates() ? host.allocate(byte_count) : std::calloc(1, byte_count);
}

void heap_release(void* allocated) {
  if (!host_allocates()) return std::free(allocated);
  if (allocated != nullptr) host.release(allocated);
}

// The host's functions know no alignment. So the lines begin somewhere in what it gives, and the place where
// that begins stands in front of them.
void* heap_allocate_lines(std::size_t byte_count) {
  SEPAL_ASSERT(byte_count % line_bytes == 0, "whole cache lines are allocated");
  if (!host_allocates()) {
    // The C library has no calloc() with an alignment.
    void* const lines = std::aligned_alloc(line_bytes, byte_count);
    if (lines != nullptr) make_zeros({static_cast<std::byte*>(lines), byte_count});
    return lines;
  }
  void* const given = host.allocate(heap_line_bytes(byte_count));
  if (given == nullptr) return nullptr;
  // The first address that has room for a pointer before it, rounded up to a line. heap_line_bytes() asks for
  // as much more as this can move the lines.
  const auto behind = reinterpret_cast<std::uintptr_t>(given) + sizeof(void*) + line_bytes - 1;
  char* const lines =
      static_cast<char*>(given) + (behind - behind % line_bytes - reinterpret_cast<std::uintptr_t>(given));
  std::memcpy(lines - sizeof given, &given, sizeof given);
  return lines;
}

void heap_release_lines(void* allocated) {
  if (!host_allocates() || allocated == nullptr) return std::free(allocated);
  void* given = nullptr;
  std::memcpy(&given, static_cast<char*>(allocated) - sizeof given, sizeof given);
  host.release(given);
}

std::size_t heap_give_back(std::span<std::byte> bytes) {
  // The kernel rounds a length up to a whole page: what is behind a part of one would become zero as well.
  const std::size_t page_bytes = page_sizes().small_bytes();
  void* begin = bytes.data();
  std::size_t left = bytes.size();
  if (host_allocates() || std::align(page_bytes, page_bytes, begin, left) == nullptr) return 0;
  left -= left % page_bytes;
  return madvise(begin, left, MADV_DONTNEED) == 0 ? left : 0;
}

std::uint64_t heap_footprint(std::uint64_t bytes) {
  constexpr std::uint64_t least_bytes = 8;
  constexpr std::uint64_t least_step_bytes = 16;
  if (bytes <= least_bytes) return least_bytes;
  const std::uint64_t step_bytes =
      std::clamp(std::bit_floor(bytes - 1) / 4, least_step_bytes, page_sizes().small_bytes());
  return (bytes + step_bytes - 1) / step_bytes * step_bytes;
}

std::size_t heap_line_bytes(std::size_t byte_count) {
  return host_allocates() ? byte_count + line_bytes + sizeof(void*) : byte_count;
}

}  // namespace sepal::value
