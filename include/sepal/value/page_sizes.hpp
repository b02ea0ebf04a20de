// The sizes of the pages that the system gives memory in.
//
//     machine    small page    huge page    a table of small pages describes
//     x86-64     4 KiB         2 MiB        2 MiB
//     arm64      4 KiB         2 MiB        2 MiB     what Debian's and Ubuntu's kernels have
//     arm64      16 KiB        32 MiB       32 MiB
//     arm64      64 KiB        512 MiB      512 MiB   a kernel that was built so
#pragma once

#include <cstdint>

namespace sepal::value {

// A plain value.
class PageSizes {
 public:
  // A power of two, at least least_small_bytes.
  explicit PageSizes(std::uint64_t small_bytes);

  static constexpr std::uint64_t least_small_bytes = 4096;

  [[nodiscard]] std::uint64_t small_bytes() const { return small_bytes_; }
  // What one table describes, as the machine finds pages: a table is a page of entries of 8 bytes, and a huge
  // page takes the place of a table.
  [[nodiscard]] std::uint64_t huge_bytes() const { return small_bytes_ / 8 * small_bytes_; }
  // Whole small pages.
  [[nodiscard]] std::uint64_t rounded_up(std::uint64_t bytes) const {
    return (bytes + small_bytes_ - 1) / small_bytes_ * small_bytes_;
  }

 private:
  std::uint64_t small_bytes_;
};

// Those of this system, asked once.
const PageSizes& page_sizes();

// For tests: values that are made from here on behave as on a system with these pages. Memory that the system
// gives in smaller pages can be treated so. While there is no value, and no other thread that makes one.
void pretend_page_sizes(PageSizes sizes);

}  // namespace sepal::value
