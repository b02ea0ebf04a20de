// Which pages of a large string's bitmap have been touched. The others are zero and take no memory, and no
// code may touch them by reading: that would cost page tables. It knows the pages of the longest string there
// can be, in an array of its own, so that a string which grows needs no further memory for it.
#pragma once

#include <sepal/filter/bit_string.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sepal::filter {

// has() and add() may be called by any thread. Relaxed: a page gets its memory with the gate closed, and the
// gate orders what the page holds.
class Pages {
 public:
  static constexpr std::uint64_t page_bytes = 4096;

  [[nodiscard]] bool has(std::uint64_t page) const { return (word(page) & bit(page)) != 0; }
  void add(std::uint64_t page) {
    const std::uint64_t before = words_[page / word_pages].fetch_or(bit(page), std::memory_order_relaxed);
    if ((before & bit(page)) == 0) touched_.fetch_add(1, std::memory_order_relaxed);
  }

  // The memory of the touched pages. They are not counted here: every change of a string asks for this.
  [[nodiscard]] std::uint64_t byte_count() const {
    return touched_.load(std::memory_order_relaxed) * page_bytes;
  }

  // Calls visit(page, offset, count) for the part of each page that lies in [offset, offset + byte_count).
  template <class Visit>
  static void each(std::uint64_t offset, std::uint64_t byte_count, const Visit& visit) {
    for (const std::uint64_t end = offset + byte_count; offset < end;) {
      const std::uint64_t page = offset / page_bytes;
      const std::uint64_t part_end = (page + 1) * page_bytes < end ? (page + 1) * page_bytes : end;
      visit(page, offset, static_cast<std::size_t>(part_end - offset));
      offset = part_end;
    }
  }

 private:
  static constexpr std::uint64_t word_pages = 64;
  static_assert(string_bytes_max % (page_bytes * word_pages) == 0);
  [[nodiscard]] static std::uint64_t bit(std::uint64_t page) {
    return std::uint64_t{1} << (page % word_pages);
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t page) const {
    return words_[page / word_pages].load(std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> touched_ = 0;
  std::array<std::atomic<std::uint64_t>, string_bytes_max / (page_bytes * word_pages)> words_{};
};

}  // namespace sepal::filter
