// From mapped_bytes_min on, a bitmap is a mapping of its own: the kernel zeroes its pages when they are first
// touched, and gets them back when it goes. From a huge page on, it starts at a multiple of one and asks for
// huge pages, without which most requests to a giant filter would miss in the translation cache as well. The
// mapping ends where the bitmap ends, rounded up to a small page, so a huge page never brings in more than
// was asked for.
//
// The mapping is counted against the machine's commit limit: a bitmap that cannot fit is refused here, and
// not by killing the process when it is touched.
#include "bitmap.hpp"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "heap_bytes.hpp"

namespace sepal::filter {
namespace {

constexpr std::uint64_t cache_line_bytes = 64;
constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t huge_page_bytes = 2 << 20;
constexpr std::uint64_t mapped_bytes_min = 256 << 10;

constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Maps `bytes` (whole pages) at a multiple of a huge page: maps a huge page more, and returns both ends.
void* map_at_huge_page(std::uint64_t bytes) {
  const std::uint64_t mapped_bytes = bytes + huge_page_bytes - page_bytes;
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return mapped;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uint64_t before = rounded_up(begin, huge_page_bytes) - begin;
  const std::uint64_t after = mapped_bytes - before - bytes;
  char* const aligned = static_cast<char*>(mapped) + before;
  // These three only fail to save memory or time; there is nothing to do about it.
  if (before > 0) (void)munmap(mapped, before);
  if (after > 0) (void)munmap(aligned + bytes, after);
  (void)madvise(aligned, bytes, MADV_HUGEPAGE);
  return aligned;
}

void* map(std::uint64_t bytes) {
  if (bytes >= huge_page_bytes) return map_at_huge_page(bytes);
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

}  // namespace

std::optional<Bitmap> Bitmap::allocate(std::uint64_t bytes) {
  if (bytes >= mapped_bytes_min) {
    void* const mapped = map(rounded_up(bytes, page_bytes));
    if (mapped == MAP_FAILED) return std::nullopt;
    return Bitmap(static_cast<std::uint64_t*>(mapped), bytes);
  }
  const std::uint64_t heap_bytes = rounded_up(bytes, cache_line_bytes);
  void* const allocated = std::aligned_alloc(cache_line_bytes, heap_bytes);
  if (allocated == nullptr) return std::nullopt;
  std::memset(allocated, 0, heap_bytes);
  return Bitmap(static_cast<std::uint64_t*>(allocated), bytes);
}

std::uint64_t Bitmap::footprint(std::uint64_t bytes) {
  if (bytes >= mapped_bytes_min) return rounded_up(bytes, page_bytes);
  return heap_footprint(rounded_up(bytes, cache_line_bytes));
}

Bitmap::~Bitmap() {
  if (words_ == nullptr) return;
  if (bytes_ >= mapped_bytes_min)
    (void)munmap(words_, rounded_up(bytes_, page_bytes));
  else
    std::free(words_);
}

}  // namespace sepal::filter
