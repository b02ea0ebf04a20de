// Small parsers.

#include "command/server/config_values.hpp"
#include "support/catch.hpp"

namespace values_test {

using namespace sepal::command;  // NOLINT(google-build-using-namespace): a test of free functions

TEST_CASE("the save point with the fewest changes is used") {
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
