#include <sepal/bloom/filter/filter.hpp>

#include <sys/resource.h>

#include "support/catch.hpp"

namespace huge_pages_test {

namespace {

using namespace sepal::bloom;

std::ptrdiff_t mapping_count() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

// Sanitizers touch memory of their own for each touched byte. And on some processors an atomic exchange
// faults like a read.
#if defined(__x86_64__) && !defined(SEPAL_SANITIZED)
long faults_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST_CASE("an add to an untouched page causes one page fault, not two") {
  const FilterOptions options{.error_rate = 0.01, .capacity = 40'000'000};  // some 12 000 pages
  const auto filter = Filter::create(options, {.bytes_max = std::uint64_t{1} << 30, .layers_max = 1});
  REQUIRE(filter);
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("item:" + std::to_string(i));
  const std::vector<std::string_view> items(names.begin(), names.end());
  std::array<bool, 500> added{};
  const std::span<bool> outcomes(added);
  const long before = faults_of_this_thread();
  SECTION("one by one") {
    for (std::size_t i = 0; i < items.size(); ++i)
      REQUIRE((*filter)->try_add({&items[i], 1}, outcomes.subspan(i, 1)));
  }
  SECTION("as a batch") {
    REQUIRE((*filter)->try_add(items, outcomes));
  }
  CHECK(faults_of_this_thread() - before < 600);
}
#endif

// The system limits the number of mappings of a process, and so the number of its big layers.
TEST_CASE("a layer in huge pages is one mapping") {
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

}  // namespace huge_pages_test
