// Where the host has no allocator of its own (value/heap.hpp), a bitmap of at least mapped_bytes_min is a
// mapping of its own: the kernel zeroes its pages when they are first touched, and gets them back when the
// bitmap goes. A bitmap of at least a huge page starts at a multiple of one and is meant for huge pages;
// without them most requests to a giant filter would miss in the translation cache as well. The mapping ends
// where the bitmap ends, rounded up to a small page, so a huge page never brings in more than was asked for.
//
// The first touch of a huge page of 2 MiB zeroes it, which takes a quarter of a millisecond, and the items
// of one batch touch a page each. So a bitmap that requests fill begins in small pages. A background thread
// moves a piece of it into a huge page when requests have touched nearly all of its small pages: earlier, the
// requests that touch the rest would wait for the move. decisions/0010 has the measurements, and what was
// tried and lost.
//
// On a system with pages of 16 or 64 KiB a huge page has 32 or 512 MiB (page_sizes.hpp). To move one, the
// kernel would copy as much while it locks the address space, and a request that touches a new page elsewhere
// would wait for that. So there a bitmap has no pieces: what requests fill stays in small pages, of which the
// translation cache covers 4 or 16 times as much. What a load fills still asks for huge pages, if it has one.
//
// Giving a gigabyte back takes milliseconds, many in small pages, and the address space is locked meanwhile:
// a request that touches a new page elsewhere would wait. So the memory goes back a piece at a time.
//
// The mapping counts against the machine's commit limit. So a bitmap that cannot fit is refused here; else
// the kernel would kill the process when it touches the bitmap.
#include <sepal/base/assert.hpp>
#include <sepal/value/bitmap.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/page_sizes.hpp>

#include <algorithm>
#include <array>
#include <sys/mman.h>

namespace sepal::value {
namespace {

// System headers older than the kernel lack the name.
#ifdef MADV_COLLAPSE
constexpr int collapse_advice = MADV_COLLAPSE;
#else
constexpr int collapse_advice = 25;
#endif
constexpr std::uint64_t cache_line_bytes = 64;
constexpr std::uint64_t mapped_bytes_min = 256 << 10;
// The only huge page that is moved to; the small pages in it are the smallest there are.
constexpr std::uint64_t moved_page_bytes = 2 << 20;
// A piece is in use when at most so many of its small pages are untouched.
constexpr std::ptrdiff_t untouched_pages_max = 16;
// The kernel takes so much back in some hundred microseconds.
constexpr std::uint64_t freed_piece_bytes = 4 * moved_page_bytes;
static_assert(moved_page_bytes == PageSizes::least_small_bytes / 8 * PageSizes::least_small_bytes &&
              PageSizes::least_small_bytes % cache_line_bytes == 0);

constexpr std::uint64_t rounded_up(std::uint64_t number, std::uint64_t unit) {
  return (number + unit - 1) / unit * unit;
}

// Maps `bytes` (whole pages) at a multiple of a huge page: maps a huge page more, and gives both ends back.
void* map_at_huge_page(std::uint64_t bytes, Paging paging) {
  const std::uint64_t huge_page_bytes = page_sizes().huge_bytes();
  // mmap() gives whole small pages, so the next multiple of a huge page is at most this far away.
  const std::uint64_t mapped_bytes = bytes + huge_page_bytes - page_sizes().small_bytes();
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return mapped;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uint64_t before = rounded_up(begin, huge_page_bytes) - begin;
  const std::uint64_t after = mapped_bytes - before - bytes;
  char* const aligned = static_cast<char*>(mapped) + before;
  // These calls only save memory or time. Nothing can be done when one of them fails. MADV_NOHUGEPAGE is said
  // aloud, because a system may be set to use huge pages everywhere.
  if (before > 0) (void)munmap(mapped, before);
  if (after > 0) (void)munmap(aligned + bytes, after);
  (void)madvise(aligned, bytes, paging == Paging::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  return aligned;
}

// Makes it likely that the kernel has a huge page at hand whose memory has been touched before. The host of a
// virtual machine finds memory when it is touched first, which takes milliseconds for a huge page. Without
// this call the kernel would touch it first while it locks the bitmap's part of the address space.
void warm_a_huge_page() {
  void* const page = map_at_huge_page(moved_page_bytes, Paging::huge);
  if (page == MAP_FAILED) return;
  // volatile: the compiler would leave out a write that is never read.
  *static_cast<volatile char*>(page) = 1;
  (void)munmap(page, moved_page_bytes);
}

void* map(std::uint64_t bytes, Paging paging) {
  if (bytes >= page_sizes().huge_bytes()) return map_at_huge_page(bytes, paging);
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

}  // namespace

std::optional<Bitmap> Bitmap::allocate(std::uint64_t bytes, Paging paging) {
  SEPAL_ASSERT(bytes > 0 && bytes % sizeof(std::uint64_t) == 0, "a bitmap has whole words");
  if (is_mapped(bytes)) {
    void* const mapped = map(page_sizes().rounded_up(bytes), paging);
    if (mapped == MAP_FAILED) return std::nullopt;
    return Bitmap(static_cast<std::uint64_t*>(mapped), bytes);
  }
  void* const allocated = heap_allocate_lines(rounded_up(bytes, cache_line_bytes));
  if (allocated == nullptr) return std::nullopt;
  return Bitmap(static_cast<std::uint64_t*>(allocated), bytes);
}

bool Bitmap::is_mapped(std::uint64_t bytes) {
  return bytes >= mapped_bytes_min && !host_allocates();
}

std::uint64_t Bitmap::piece_count() const {
  return is_mapped(bytes_) && page_sizes().huge_bytes() == moved_page_bytes ? bytes_ / moved_page_bytes : 0;
}

char* Bitmap::piece_begin(std::uint64_t piece) const {
  SEPAL_ASSERT(piece < piece_count(), "a piece of a bitmap is one that it has");
  return reinterpret_cast<char*>(words_) + piece * moved_page_bytes;
}

bool Bitmap::in_use(std::uint64_t piece) const {
  std::array<unsigned char, moved_page_bytes / PageSizes::least_small_bytes> resident{};
  // Without an answer the piece counts as in use: it would otherwise hold up the layer for ever.
  if (mincore(piece_begin(piece), moved_page_bytes, resident.data()) != 0) return true;
  // Only the lowest bit of an answer has a meaning.
  const auto untouched = std::ranges::count_if(resident, [](unsigned char page) { return (page & 1) == 0; });
  return untouched <= untouched_pages_max;
}

// Where the kernel knows no MADV_COLLAPSE (before 6.1), or has no huge page now, it moves the piece later by
// itself: the first call allows that. The call for the last piece takes what follows the piece along.
// Otherwise the bitmap would stay two mappings, of which a process may have some ten thousand.
void Bitmap::move_to_huge_page(std::uint64_t piece) const {
  warm_a_huge_page();
  // A failure is ignored: the piece then stays in small pages, and answers as before.
  const bool last = piece + 1 == piece_count();
  const std::uint64_t end = page_sizes().rounded_up(bytes_);
  (void)madvise(piece_begin(piece), last ? end - piece * moved_page_bytes : moved_page_bytes, MADV_HUGEPAGE);
  (void)madvise(piece_begin(piece), moved_page_bytes, collapse_advice);
}

std::uint64_t Bitmap::footprint(std::uint64_t bytes) {
  if (is_mapped(bytes)) return page_sizes().rounded_up(bytes);
  return heap_footprint(heap_line_bytes(rounded_up(bytes, cache_line_bytes)));
}

Bitmap::~Bitmap() {
  if (words_ == nullptr) return;
  if (!is_mapped(bytes_)) {
    heap_release_lines(words_);
    return;
  }
  char* const begin = reinterpret_cast<char*>(words_);
  const std::uint64_t bytes = page_sizes().rounded_up(bytes_);
  // munmap() comes last: it holds the lock of the address space, and has no page left to free.
  for (std::uint64_t at = 0; at < bytes; at += freed_piece_bytes)
    (void)madvise(begin + at, std::min(freed_piece_bytes, bytes - at), MADV_DONTNEED);
  (void)munmap(begin, bytes);
}

}  // namespace sepal::value
