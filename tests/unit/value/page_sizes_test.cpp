#include <sepal/value/bitmap.hpp>
#include <sepal/value/heap.hpp>
#include <sepal/value/page_sizes.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "support/catch.hpp"
#include "support/pretended_pages.hpp"

namespace page_sizes_test {

namespace {

namespace test = sepal::test;
using sepal::value::Bitmap;
using sepal::value::PageSizes;
using sepal::value::Paging;

TEST_CASE("the page sizes are those of the system, and a huge page is what a table describes") {
  CHECK(sepal::value::page_sizes().small_bytes() == static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
  CHECK(PageSizes(4 << 10).huge_bytes() == std::uint64_t{2} << 20);
  CHECK(PageSizes(16 << 10).huge_bytes() == std::uint64_t{32} << 20);
  CHECK(PageSizes(64 << 10).huge_bytes() == std::uint64_t{512} << 20);
}

// The bytes of this process's address space that are mapped. Under QEMU, this file is about the emulated
// process, and others are about QEMU.
std::uint64_t mapped_bytes() {
  std::ifstream file("/proc/self/maps");
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find('-');
    bytes += std::stoull(line.substr(dash + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
  }
  REQUIRE(bytes > 0);
#ifdef SEPAL_SANITIZED
  return 0;  // a sanitizer maps memory of its own at any time
#else
  return bytes;
#endif
}

TEST_CASE("a bitmap takes whole pages of the system, is zero, and gives all of them back") {
  test::with_each_page_size([](std::uint64_t page_bytes) {
    const std::uint64_t huge_bytes = PageSizes(page_bytes).huge_bytes();
    for (const std::uint64_t bytes : {(std::uint64_t{256} << 10) + 8, (std::uint64_t{2} << 20) + page_bytes,
                                      huge_bytes + 4096, huge_bytes + huge_bytes / 2 + 8}) {
      for (const Paging paging : {Paging::small, Paging::huge}) {
        CAPTURE(page_bytes, bytes);
        const std::uint64_t before = mapped_bytes();
        {
          const auto bitmap = Bitmap::allocate(bytes, paging);
          REQUIRE(bitmap);
          const std::uint64_t whole_pages = (bytes + page_bytes - 1) / page_bytes * page_bytes;
          CHECK(Bitmap::footprint(bytes) == whole_pages);
          CHECK((before == 0 || mapped_bytes() == before + whole_pages));
          const auto begin = reinterpret_cast<std::uintptr_t>(bitmap->words());
          CHECK(begin % (bytes < huge_bytes ? 8 : huge_bytes) == 0);
          // Only huge pages of 2 MiB are moved to.
          CHECK(bitmap->piece_count() == (page_bytes == 4096 ? bytes / huge_bytes : 0));
          bitmap->words()[0] = 1;
          CHECK(bitmap->words()[bytes / 8 - 1] == 0);
        }
        CHECK(mapped_bytes() == before);
      }
    }
  });
}

TEST_CASE("only whole pages of the system are given back from within an allocation") {
  test::with_each_page_size([](std::uint64_t page_bytes) {
    CAPTURE(page_bytes);
    auto* const lines = static_cast<unsigned char*>(std::aligned_alloc(page_bytes, 4 * page_bytes));
    REQUIRE(lines != nullptr);
    std::fill_n(lines, 4 * page_bytes, static_cast<unsigned char>(0xff));
    // From a page's begin to a little behind another page's: the kernel would round that up, and empty the
    // rest of the page, which is not in the range.
    const auto given_back = sepal::value::heap_give_back(
        {reinterpret_cast<std::byte*>(lines), static_cast<std::size_t>(page_bytes + page_bytes / 4)});
    CHECK(given_back == page_bytes);
    CHECK(std::all_of(lines, lines + page_bytes, [](unsigned char byte) { return byte == 0; }));
    CHECK(std::all_of(lines + page_bytes, lines + 4 * page_bytes,
                      [](unsigned char byte) { return byte == 0xff; }));
    CHECK(sepal::value::heap_give_back(
              {reinterpret_cast<std::byte*>(lines) + 8, static_cast<std::size_t>(2 * page_bytes - 16)}) == 0);
    std::free(lines);
  });
}

}  // namespace

}  // namespace page_sizes_test
