// Addresses without a right of access take no memory, and do not count against the machine's commit limit. So
// each long string reserves addresses for the longest one there can be, and grow() gives the right of access
// to more of them. There a page takes memory at its first touch. Small pages only: a huge page would bring in
// two megabytes for one bit.
#include "string_memory.hpp"

#include <sepal/filter/bit_string.hpp>

#include <algorithm>
#include <sys/mman.h>

namespace sepal::filter {
namespace {

// The kernel takes so much back in some hundred microseconds.
constexpr std::uint64_t returned_bytes = std::uint64_t{8} << 20;

}  // namespace

StringMemory::StringMemory(std::uint64_t* words) : words_(words), pages_(string_bytes_max) {}

std::shared_ptr<StringMemory> StringMemory::reserve(std::uint64_t bytes) {
  void* const reserved =
      mmap(nullptr, string_bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  // This call only saves memory.
  (void)madvise(reserved, string_bytes_max, MADV_NOHUGEPAGE);
  std::shared_ptr<StringMemory> memory(new StringMemory(static_cast<std::uint64_t*>(reserved)));
  return memory->grow(bytes) ? memory : nullptr;
}

bool StringMemory::grow(std::uint64_t bytes) {
  const std::uint64_t whole_pages = (bytes + Pages::page_bytes - 1) / Pages::page_bytes * Pages::page_bytes;
  if (whole_pages <= bytes_) return true;
  // This is where the system may refuse: from here on the bytes count against its commit limit. A string has
  // two mappings, the usable part and the rest (decisions/0027).
  if (mprotect(words_, whole_pages, PROT_READ | PROT_WRITE) != 0) return false;
  bytes_ = whole_pages;
  return true;
}

std::uint64_t StringMemory::footprint() {
  return heap_footprint(sizeof(StringMemory)) + Pages::footprint(string_bytes_max);
}

// In pieces, because the address space is locked while memory goes back.
StringMemory::~StringMemory() {
  char* const begin = reinterpret_cast<char*>(words_);
  for (std::uint64_t at = 0; at < bytes_; at += returned_bytes)
    (void)madvise(begin + at, std::min(returned_bytes, bytes_ - at), MADV_DONTNEED);
  (void)munmap(begin, string_bytes_max);
}

}  // namespace sepal::filter
