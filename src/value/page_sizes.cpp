#include <sepal/base/assert.hpp>
#include <sepal/value/page_sizes.hpp>

#include <bit>
#include <unistd.h>

namespace sepal::value {
namespace {

PageSizes& sizes_here() {
  static PageSizes sizes(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  return sizes;
}

}  // namespace

PageSizes::PageSizes(std::uint64_t small_bytes) : small_bytes_(small_bytes) {
  SEPAL_ASSERT(std::has_single_bit(small_bytes) && small_bytes >= least_small_bytes,
               "a page is a power of two, and no smaller than the smallest");
}

const PageSizes& page_sizes() {
  return sizes_here();
}

void pretend_page_sizes(PageSizes sizes) {
  sizes_here() = sizes;
}

}  // namespace sepal::value
