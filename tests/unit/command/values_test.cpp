// The matching of patterns, and other small parsers.
#include <sepal/command/glob.hpp>

#include <cmath>
#include <limits>

#include "../../../src/command/config_values.hpp"
#include "support/catch.hpp"

namespace values_test {

using namespace sepal::command;  // NOLINT(google-build-using-namespace): a test of free functions

TEST_CASE("patterns match as in the reference", "[command]") {
  const auto yes = [](std::string_view pattern, std::string_view text) { return matches(pattern, text); };
  CHECK(yes("*", ""));
  CHECK(yes("a?c", "abc"));
  CHECK(yes("h[ab]", "ha"));
  CHECK(yes("h[^a]", "hb"));
  CHECK_FALSE(yes("h[^a]", "ha"));
  CHECK(yes("h[5-1]", "h3"));
  CHECK(yes("a\\*b", "a*b"));
  CHECK_FALSE(yes("a\\*b", "axb"));
  CHECK(yes("a\\", "a\\"));
  CHECK(yes("[\\]]", "]"));
  CHECK(yes("a*b*c", "aXbXc"));
  CHECK_FALSE(yes("a*b*c", "aXbX"));
  CHECK(yes("[abc", "b"));
  CHECK_FALSE(yes("", "a"));
  CHECK_FALSE(yes("abc", "ab"));
  CHECK_FALSE(yes("KEY", "key"));
  CHECK(matches("K[A-C]Y", "kby", Case::ignored));
}

TEST_CASE("a pattern with many stars is matched in little time", "[command]") {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern + "b", std::string(5000, 'a')));
}

TEST_CASE("a comparison in steps answers as one in a single step", "[command]") {
  const std::string pattern = GENERATE("*a*[bc]?*\\*d", "a*b", "*", "[^a-c]*x", "*aab*aab", "", "abc[");
  for (const std::string_view text :
       {"", "a", "ab", "aab", "aaaaab", "xaaabaabxaab", "a0b0*d", "zx", "abc", "axbxcx*d"}) {
    CAPTURE(pattern, text);
    Matching matching;
    for (int again = 0; again < 2; ++again) {
      std::optional<bool> answer;
      for (int steps = 0; !answer && steps < 1000; ++steps) {
        std::size_t bytes = 1;
        answer = matching.go_on(pattern, text, Case::sensitive, bytes);
      }
      CHECK(answer == matches(pattern, text));
    }
  }
}

TEST_CASE("a step of a comparison reads no more of the pattern than it is asked to, and one class",
          "[command]") {
  const std::string long_class = "*[" + std::string(1000, 'b') + "]c";
  const std::string text(100, 'a');
  Matching matching;
  int steps = 0;
  for (std::optional<bool> answer; !answer; ++steps) {
    std::size_t bytes = 1000;
    answer = matching.go_on(long_class, text, Case::sensitive, bytes);
  }
  CHECK(steps >= 100);
}

TEST_CASE("a long pattern matches no name", "[command]") {
  CHECK(matches_name("MAX*", "maxclients"));
  CHECK(matches_name("*" + std::string(name_pattern_bytes_max - 2, '*') + "s", "maxclients"));
  CHECK_FALSE(matches_name("*" + std::string(name_pattern_bytes_max - 1, '*') + "s", "maxclients"));
}

TEST_CASE("the save point with the fewest changes is used", "[command]") {
  using std::chrono::seconds;
  const auto points = [](std::string_view word) { return std::get<SavePoints>(parse_save_points(word)); };
  CHECK(points("").interval == seconds(0));
  CHECK(points("").text.empty());
  CHECK(points("3600 1 300 100 60 10000").interval == seconds(3600));
  CHECK(points("3600 1 300 100 60 10000").text == "3600 1 300 100 60 10000");
  CHECK(points("60 10000  900 1 ").interval == seconds(900));
  CHECK(points("60 10000  900 1 ").text == "60 10000 900 1");
  std::string most;
  for (std::size_t i = 0; i < save_points_max; ++i) most += "60 1 ";
  CHECK(points(most).interval == seconds(60));
  CHECK(std::get<std::string>(parse_save_points(most + "60 1")) == "Invalid save parameters");
  for (const char* word : {"x", "60", "0 1", "60 -1", "60 x", "60 1 60", "2147483648 1"})
    CHECK(std::get<std::string>(parse_save_points(word)) == "Invalid save parameters");
}

}  // namespace values_test
