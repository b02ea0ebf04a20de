// The matching of patterns.
#include <sepal/base/glob.hpp>

#include "support/catch.hpp"

namespace glob_test {

using namespace sepal;  // NOLINT(google-build-using-namespace): a test of free functions

TEST_CASE("patterns match as in the reference") {
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

TEST_CASE("a pattern with many stars is matched in little time") {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  CHECK_FALSE(matches(pattern + "b", std::string(5000, 'a')));
}

TEST_CASE("a comparison in steps answers as one in a single step") {
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

TEST_CASE("a step of a comparison reads no more of the pattern than it is asked to, and one class") {
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

TEST_CASE("a long pattern matches no name") {
  CHECK(matches_name("MAX*", "maxclients"));
  CHECK(matches_name("*" + std::string(name_pattern_bytes_max - 2, '*') + "s", "maxclients"));
  CHECK_FALSE(matches_name("*" + std::string(name_pattern_bytes_max - 1, '*') + "s", "maxclients"));
}

}  // namespace glob_test
