// A system with other pages, for the time of a test.
#pragma once

#include <sepal/value/page_sizes.hpp>

#include <algorithm>
#include <initializer_list>

namespace sepal::test {

class PretendedPages {
 public:
  explicit PretendedPages(std::uint64_t small_bytes) {
    value::pretend_page_sizes(value::PageSizes(small_bytes));
  }
  ~PretendedPages() { value::pretend_page_sizes(of_system_); }
  PretendedPages(const PretendedPages&) = delete;
  PretendedPages& operator=(const PretendedPages&) = delete;

 private:
  const value::PageSizes of_system_ = value::page_sizes();
};

// Calls visit(small_bytes) as on a system with pages of 4, 16 and 64 KiB, without those below what this one
// has.
template <class Visit>
void with_each_page_size(const Visit& visit) {
  const std::uint64_t least = value::page_sizes().small_bytes();
  for (const std::uint64_t small_bytes : std::initializer_list<std::uint64_t>{4 << 10, 16 << 10, 64 << 10}) {
    if (small_bytes < least) continue;
    const PretendedPages pretended(small_bytes);
    visit(small_bytes);
  }
}

}  // namespace sepal::test
