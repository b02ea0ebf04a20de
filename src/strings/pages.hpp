// Which pages of a large string's bitmap have been touched. The others are zero and take no memory, and no
// code may touch them by reading: that would cost page tables. Linux describes 512 pages in a row in one page
// of its own, a table. A string with a page here and there has nearly as many tables as pages, so they count.
// It knows the pages of the longest string there can be, in an array of its own, so that a string which grows
// needs no further memory for it.
#pragma once

#include <sepal/strings/string.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sepal::strings {

// has() and add() may be called by any thread. Relaxed: a page gets its memory with the gate closed, and the
// gate orders what the page holds.
class Pages {
 public:
  static constexpr std::uint64_t page_bytes = 4096;

  [[nodiscard]] bool has(std::uint64_t page) const { return (word(page) & bit(page)) != 0; }
  void add(std::uint64_t page) {
    if (newly_set(words_[page / word_pages], bit(page))) touched_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t table = page / table_pages;
    if (newly_set(tables_[table / word_pages], bit(table))) touched_.fetch_add(1, std::memory_order_relaxed);
  }

  // The memory of the touched pages, and of their tables. They are not counted here: every change of a string
  // asks for this.
  [[nodiscard]] std::uint64_t byte_count() const {
    return touched_.load(std::memory_order_relaxed) * page_bytes;
  }

  // What the memory would grow by if the pages of [offset, offset + byte_count) were touched.
  [[nodiscard]] std::uint64_t bytes_to_touch(std::uint64_t offset, std::uint64_t byte_count) const {
    std::uint64_t pages = 0;
    std::uint64_t table_counted = ~std::uint64_t{0};
    each(offset, byte_count, [&](std::uint64_t page, std::uint64_t, std::size_t) {
      if (has(page)) return;
      const std::uint64_t table = page / table_pages;
      pages += table == table_counted || has_table(table) ? 1 : 2;
      table_counted = table;
    });
    return pages * page_bytes;
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
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t word_pages = 64;
  static constexpr std::uint64_t table_pages = 512;
  static_assert(string_bytes_max % (page_bytes * table_pages * word_pages) == 0);
  [[nodiscard]] static std::uint64_t bit(std::uint64_t index) {
    return std::uint64_t{1} << (index % word_pages);
  }
  static bool newly_set(Word& word, std::uint64_t bit) {
    // Most pages that are added were touched before, and a load costs less than a locked write.
    if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
    return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }
  [[nodiscard]] bool has_table(std::uint64_t table) const {
    return (tables_[table / word_pages].load(std::memory_order_relaxed) & bit(table)) != 0;
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t page) const {
    return words_[page / word_pages].load(std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> touched_ = 0;  // pages and tables
  std::array<Word, string_bytes_max / (page_bytes * word_pages)> words_{};
  std::array<Word, string_bytes_max / (page_bytes * table_pages * word_pages)> tables_{};
};

}  // namespace sepal::strings
