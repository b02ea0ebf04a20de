#include <sepal/filter/filter.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>

#include "support/catch.hpp"

namespace {

using namespace sepal::filter;

std::ptrdiff_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

// The system lets a process have so many, which are as many big layers.
TEST_CASE("a layer in huge pages is one mapping", "[filter]") {
  // Two huge pages and a half.
  const FilterOptions options{.error_rate = 0.01, .capacity = 4'300'000};
  std::array<FilterPtr, 16> filters;
  for (FilterPtr& filter : filters) {
    const auto created = Filter::create(options, {.bytes_max = std::uint64_t{1} << 30, .layers_max = 1});
    REQUIRE(created);
    filter = *created;
    REQUIRE(filter->newest_layer().piece_count() == 2);
  }
  const std::ptrdiff_t before = mapping_count();
  for (const FilterPtr& filter : filters)
    for (std::uint64_t piece = 0; piece < 2; ++piece) filter->newest_layer().move_to_huge_page(piece);
  CHECK(mapping_count() < before + static_cast<std::ptrdiff_t>(filters.size()) / 2);
}

}  // namespace
