#include <sepal/base/assert.hpp>
#include <sepal/value/heap.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/mman.h>

namespace sepal::value {
namespace {

constexpr std::size_t line_bytes = 64;  // of a cache

// Written once, before there are other threads that make values.
Allocator host{.allocate = nullptr, .release = nullptr};

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
    if (lines != nullptr) std::memset(lines, 0, byte_count);
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
  constexpr std::size_t page_bytes = 4096;
  void* begin = bytes.data();
  std::size_t left = bytes.size();
  if (host_allocates() || std::align(page_bytes, page_bytes, begin, left) == nullptr) return 0;
  left -= left % page_bytes;
  return madvise(begin, left, MADV_DONTNEED) == 0 ? left : 0;
}

std::size_t heap_line_bytes(std::size_t byte_count) {
  return host_allocates() ? byte_count + line_bytes + sizeof(void*) : byte_count;
}

}  // namespace sepal::value
