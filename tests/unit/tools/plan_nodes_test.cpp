#include "tools/build/plan_nodes.hpp"

#include <bit>

#include "support/catch.hpp"

namespace plan_nodes_test {

using namespace sepal::tools;  // NOLINT(google-build-using-namespace): a test of free functions

TEST_CASE("a filter is divided into parts that move in a moment") {
  for (const std::uint64_t capacity :
       {1ull, 1000ull, 100'000'000ull, 10'000'000'000ull, 1'000'000'000'000ull, 100'000'000'000'000ull}) {
    CAPTURE(capacity);
    const auto parts = divide({.error_rate = 0.001, .capacity = capacity});
    REQUIRE(parts);
    CHECK(std::has_single_bit(parts->count));
    CHECK(parts->count >= 64);
    CHECK(parts->count <= 4096);
    CHECK(static_cast<double>(parts->capacity) >=
          static_cast<double>(capacity) / static_cast<double>(parts->count));
    CHECK((parts->bytes <= std::uint64_t{256} << 20 || parts->count == 4096));
    // Half as many parts would do only if they were few already.
    if (parts->count > 64) CHECK(2 * parts->bytes > std::uint64_t{256} << 20);
  }
}

TEST_CASE("chance fills no part much above its capacity") {
  constexpr std::uint64_t items = 200'000;
  const auto parts = divide({.error_rate = 0.01, .capacity = items});
  REQUIRE(parts);
  std::vector<std::uint64_t> counts(parts->count);
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in each run
  for (std::uint64_t item = 0; item < items; ++item) ++counts[random() % parts->count];
  for (const std::uint64_t count : counts)
    CHECK(static_cast<double>(count) <= 1.01 * static_cast<double>(parts->capacity));
}

TEST_CASE("the report has the words that make a part, and the machines") {
  const auto text_of = [](const PlanRequest& request) {
    const auto report = nodes_report(request);
    std::string text;
    if (report)
      for (const std::string& line : *report) text += line + "\n";
    return report ? text : report.error().detail;
  };
  const PlanRequest request{.error_rate = 0.001, .capacity = 10'000'000'000};
  const std::string text = text_of(request);
  CHECK(text.find("in 128 parts: users:{0} to users:{127}\n") != std::string::npos);
  CHECK(text.find("BF.RESERVE users:{0} 0.001 78178034\n") != std::string::npos);
  // As `redis-cli --cluster create` and the server's own CRC16 placed them.
  for (const char* const row :
       {"        3            45  ", "        8            17  ", "       48             7  "})
    CHECK(text.find(row) != std::string::npos);
  CHECK(text_of({.error_rate = 0.9999999, .capacity = 1000}).find(" 0.9999999 ") != std::string::npos);
  CHECK(text_of({.error_rate = 0.001, .capacity = 1000, .expansion = 0}).find(" NONSCALING\n") !=
        std::string::npos);
  CHECK(text_of({.error_rate = 0.001, .capacity = 1000, .expansion = 4}).find(" EXPANSION 4\n") !=
        std::string::npos);
  CHECK(text_of({.error_rate = 2, .capacity = 1000}) == "the error rate must lie between 0 and 1");
  CHECK(text_of({.error_rate = 0.01, .capacity = std::uint64_t{1} << 60}) ==
        "a filter of this capacity and error rate fits into no machine's memory");
}

}  // namespace plan_nodes_test
