#include "tools/build/plan_window.hpp"

#include "support/catch.hpp"

namespace plan_window_test {

using namespace sepal::tools;  // NOLINT(google-build-using-namespace): a test of free functions
using sepal::Errc;
using sepal::bloom::WindowOptions;

constexpr std::uint64_t hour = 3'600'000;

std::string text_of(const WindowOptions& options) {
  const auto report = window_report(options);
  if (!report) return report.error().detail;
  std::string text;
  for (const std::string& line : *report) text += line + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the items of a window are its pace times its time, rounded up") {
  CHECK(*items_of_window({.count = 20'000, .milliseconds = 1000}, hour) == 72'000'000);
  CHECK(*items_of_window({.count = 1, .milliseconds = 1000}, 100) == 1);
  CHECK(*items_of_window({.count = 10, .milliseconds = 3000}, 1000) == 4);
  CHECK(*items_of_window({.count = 1, .milliseconds = 7 * hour}, 7 * hour) == 1);
  CHECK(items_of_window({.count = UINT64_MAX, .milliseconds = 1}, 2).error().code == Errc::too_large);
}

TEST_CASE("a time is told in whole units") {
  CHECK(time_text(hour + hour / 4) == "1 hour 15 minutes");
  CHECK(time_text(7 * 24 * hour) == "7 days");
  CHECK(time_text(24 * hour + 1000) == "1 day 1 second");
  CHECK(time_text(90'500) == "1 minute 30.5 seconds");
  CHECK(time_text(125) == "0.125 seconds");
  CHECK(time_text(2000) == "2 seconds");
}

TEST_CASE("the report has the shape that the server plans, and the line to type") {
  const WindowOptions options{.error_rate = 0.001, .capacity = 72'000'000, .milliseconds = hour};
  const std::string text = text_of(options);
  CAPTURE(text);
  const auto plan = sepal::bloom::plan_window(options, UINT64_MAX);
  REQUIRE(plan);
  CHECK(has(text, "error rate 0.001, 72000000 items in 1 hour, 4 generations\n"));
  CHECK(has(text, "memory            " + std::to_string(plan->byte_count(options.lanes())) + " bytes"));
  CHECK(has(text, "kept at least     1 hour\n"));
  CHECK(has(text, "kept at most      1 hour 15 minutes\n"));
  CHECK(has(text, "to create it      BF.RESERVE key 0.001 72000000 WINDOW 3600\n"));
  CHECK(has(text, "more than 18000000 items gets a further layer"));
  CHECK(has(text, "1 hour 7 minutes 30 seconds\n"));
}

TEST_CASE("the line to type has the words of what was asked for") {
  WindowOptions options{
      .error_rate = 0.01, .capacity = 1000, .expansion = 4, .milliseconds = 500, .generations = 2};
  CHECK(has(text_of(options), "BF.RESERVE key 0.01 1000 EXPANSION 4 WINDOW 0.5 GENERATIONS 2\n"));
  options.expansion = 0;
  CHECK(has(text_of(options), "BF.RESERVE key 0.01 1000 NONSCALING WINDOW 0.5 GENERATIONS 2\n"));
  CHECK(!has(text_of(options), "further layer"));
  options.milliseconds = 0;
  const std::string last = text_of(options);
  CHECK(has(last, "error rate 0.01, the last 1000 items, 2 generations\n"));
  CHECK(has(last, "BF.RESERVE key 0.01 1000 LAST GENERATIONS 2\n"));
  CHECK(has(last, "kept at most      1500 items\n"));
  CHECK(!has(last, "further layer"));
}

TEST_CASE("what no server takes is not planned") {
  CHECK(text_of({.capacity = 1, .milliseconds = 399}) == "a generation has at least a tenth of a second");
  CHECK(text_of({.capacity = 1, .generations = 17}) == "the generations of a window are 1 to 16");
  CHECK(text_of({.capacity = 3}) == "a generation has at least one item");
  CHECK(window_report({.capacity = UINT64_MAX, .milliseconds = hour}).error().code == Errc::too_large);
  // Where only further layers are too large, the report says so.
  CHECK(has(text_of({.error_rate = 1e-6, .capacity = 100'000'000'000'000, .milliseconds = hour}),
            "A further layer would be larger than any machine's memory.\n"));
}

}  // namespace plan_window_test
