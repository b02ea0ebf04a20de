// Addresses without a right of access take no memory, and do not count against the machine's commit
// limit. So each long string reserves addresses for the longest one there can be, and grow() gives the right
// of access to more of them. There a page takes memory at its first touch. Small pages only: a huge page
// would bring in two megabytes for one bit, and
// more where small pages have 16 or 64 KiB.
#include "strings/string_memory.hpp"

#include <sepal/strings/string.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/page_sizes.hpp>

#include <algorithm>
#include <atomic>
#include <limits>
#include <new>
#include <sys/mman.h>

namespace sepal::strings {
namespace {

// The kernel takes so much back in some hundred microseconds.
constexpr std::uint64_t returned_bytes = std::uint64_t{8} << 20;

// A string has two mappings: the part that may be used, and the rest.
constexpr std::uint64_t mappings_each = 2;

// Both are of the whole process, as its mappings are. Relaxed: only the numbers matter.
std::atomic<std::uint64_t> chunk_count{0};
std::atomic<std::uint64_t> count_max{std::numeric_limits<std::uint64_t>::max()};

}  // namespace

void limit_mappings(std::uint64_t process_max) {
  count_max.store(std::min(process_max / 4 * 3 / mappings_each, sparse_strings_max),
                  std::memory_order_relaxed);
}

bool StringMemory::has_room() {
  return chunk_count.load(std::memory_order_relaxed) < count_max.load(std::memory_order_relaxed);
}

StringMemory::StringMemory(std::uint64_t* words) : words_(words) {
  chunk_count.fetch_add(1, std::memory_order_relaxed);
}

StringMemoryPtr StringMemory::reserve(std::uint64_t bytes) {
  void* const reserved =
      mmap(nullptr, string_bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  // This call only saves memory.
  (void)madvise(reserved, string_bytes_max, MADV_NOHUGEPAGE);
  StringMemoryPtr memory(new (std::nothrow) StringMemory(static_cast<std::uint64_t*>(reserved)));
  if (memory == nullptr) (void)munmap(reserved, string_bytes_max);
  return memory != nullptr && memory->grow(bytes) ? memory : nullptr;
}

bool StringMemory::grow(std::uint64_t bytes) {
  const std::uint64_t whole_pages = value::page_sizes().rounded_up(bytes);
  if (whole_pages <= bytes_) return true;
  // This is where the system may refuse: from here on the bytes count against its commit limit.
  if (mprotect(words_, whole_pages, PROT_READ | PROT_WRITE) != 0) return false;
  bytes_ = whole_pages;
  return true;
}

std::uint64_t StringMemory::footprint() {
  return value::heap_footprint(sizeof(StringMemory));
}

// In pieces, because the address space is locked while memory goes back.
StringMemory::~StringMemory() {
  char* const begin = reinterpret_cast<char*>(words_);
  for (std::uint64_t at = 0; at < bytes_; at += returned_bytes)
    (void)madvise(begin + at, std::min(returned_bytes, bytes_ - at), MADV_DONTNEED);
  (void)munmap(begin, string_bytes_max);
  chunk_count.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace sepal::strings
