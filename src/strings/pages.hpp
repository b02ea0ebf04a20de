// Which parts of a large string's bitmap have been touched. The others are zero and take no memory, and no
// code may touch them by reading: that would cost page tables. A part has 4 KiB, the smallest page that a
// system has; where pages have 16 or 64 KiB, 4 or 16 parts share a page, and the first of them that is
// touched counts the page. Linux describes the pages in a row in a page of its own, a table: 512 pages of 4
// KiB. A string with a page here and there has nearly as many tables as pages, so they count. It knows the
// parts of the longest string there can be, in an array of its own, so that a string which grows needs no
// further memory for it.
#pragma once

#include <sepal/strings/string.hpp>
#include <sepal/value/page_sizes.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sepal::strings {

// has() and add() may be called by any thread. Relaxed: a page gets its memory with the gate closed, and the
// gate orders what the page holds.
class Pages {
 public:
  static constexpr std::uint64_t part_bytes = value::PageSizes::least_small_bytes;

  [[nodiscard]] bool has(std::uint64_t part) const {
    return (word_of(part).load(std::memory_order_relaxed) & bit(part)) != 0;
  }
  void add(std::uint64_t part) {
    std::atomic<std::uint64_t>& word = words_[part / word_bits];
    // Most parts that are added were touched before, and a load costs less than a locked write.
    if ((word.load(std::memory_order_relaxed) & bit(part)) != 0) return;
    if ((word.fetch_or(bit(part), std::memory_order_relaxed) & bits_of_page(part)) != 0) return;
    touched_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t table = part / table_parts_;
    const std::uint64_t before = tables_[table / word_bits].fetch_or(bit(table), std::memory_order_relaxed);
    if ((before & bit(table)) == 0) touched_.fetch_add(1, std::memory_order_relaxed);
  }

  // The memory of the touched pages, and of their tables. They are not counted here: every change of a string
  // asks for this.
  [[nodiscard]] std::uint64_t byte_count() const {
    return touched_.load(std::memory_order_relaxed) * sizes_.small_bytes();
  }

  // What the memory would grow by if the parts of [offset, offset + byte_count) were touched.
  [[nodiscard]] std::uint64_t bytes_to_touch(std::uint64_t offset, std::uint64_t byte_count) const {
    std::uint64_t pages = 0;
    std::uint64_t page_counted = ~std::uint64_t{0};
    std::uint64_t table_counted = ~std::uint64_t{0};
    each(offset, byte_count, [&](std::uint64_t part, std::uint64_t, std::size_t) {
      const std::uint64_t page = part / page_parts_;
      if (page == page_counted || has_page(part)) return;
      page_counted = page;
      const std::uint64_t table = part / table_parts_;
      pages += table == table_counted || has_table(table) ? 1 : 2;
      table_counted = table;
    });
    return pages * sizes_.small_bytes();
  }

  // Calls visit(part, offset, count) for each part that lies in [offset, offset + byte_count), or what of it
  // does.
  template <class Visit>
  static void each(std::uint64_t offset, std::uint64_t byte_count, const Visit& visit) {
    for (const std::uint64_t end = offset + byte_count; offset < end;) {
      const std::uint64_t part = offset / part_bytes;
      const std::uint64_t part_end = (part + 1) * part_bytes < end ? (part + 1) * part_bytes : end;
      visit(part, offset, static_cast<std::size_t>(part_end - offset));
      offset = part_end;
    }
  }

 private:
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t word_bits = 64;
  static constexpr std::uint64_t least_table_parts = 512;
  static_assert(string_bytes_max % (part_bytes * least_table_parts * word_bits) == 0);
  [[nodiscard]] static std::uint64_t bit(std::uint64_t index) {
    return std::uint64_t{1} << (index % word_bits);
  }
  [[nodiscard]] const Word& word_of(std::uint64_t part) const { return words_[part / word_bits]; }
  // The parts of the page that this part is in: all are in one word, because a page has at most 64 parts.
  [[nodiscard]] std::uint64_t bits_of_page(std::uint64_t part) const {
    return (~std::uint64_t{0} >> (word_bits - page_parts_)) << (part / page_parts_ * page_parts_ % word_bits);
  }
  [[nodiscard]] bool has_page(std::uint64_t part) const {
    return (word_of(part).load(std::memory_order_relaxed) & bits_of_page(part)) != 0;
  }
  [[nodiscard]] bool has_table(std::uint64_t table) const {
    return (tables_[table / word_bits].load(std::memory_order_relaxed) & bit(table)) != 0;
  }

  const value::PageSizes sizes_ = value::page_sizes();
  const std::uint64_t page_parts_ = sizes_.small_bytes() / part_bytes;
  const std::uint64_t table_parts_ = sizes_.huge_bytes() / part_bytes;  // of what a table describes
  std::atomic<std::uint64_t> touched_ = 0;                              // pages and tables
  std::array<Word, string_bytes_max / (part_bytes * word_bits)> words_{};
  std::array<Word, string_bytes_max / (part_bytes * least_table_parts * word_bits)> tables_{};
};

}  // namespace sepal::strings
