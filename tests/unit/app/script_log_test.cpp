#include "app/script_log.hpp"

#include <chrono>
#include <string>

#include "support/catch.hpp"

namespace script_log_test {

using namespace sepal;

TEST_CASE("a script's line is logged printable and cut", "[app]") {
  CHECK(app::printable_line("a\nb\"c\x1b\xff") == "a?b'c??");
  CHECK(app::printable_line(std::string(app::script_line_bytes_max, 'x')).size() ==
        app::script_line_bytes_max);
  CHECK(app::printable_line(std::string(app::script_line_bytes_max + 1, 'x')).size() ==
        app::script_line_bytes_max);
}

TEST_CASE("in one second, so many lines of scripts are logged, and the next tells how many were left out",
          "[app]") {
  app::ScriptLines lines;
  const SteadyTime second{std::chrono::seconds(10)};
  std::uint64_t left_out = 0;
  for (std::uint64_t line = 0; line < app::script_lines_max; ++line) CHECK(lines.takes(second, left_out));
  for (int line = 0; line < 7; ++line)
    CHECK_FALSE(lines.takes(second + std::chrono::milliseconds(999), left_out));
  CHECK(left_out == 0);
  CHECK(lines.takes(second + std::chrono::seconds(1), left_out));
  CHECK(left_out == 7);
  CHECK(lines.takes(second + std::chrono::seconds(1), left_out));
  CHECK(left_out == 0);
}

}  // namespace script_log_test
