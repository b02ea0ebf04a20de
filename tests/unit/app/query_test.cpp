#include "app/pages/query.hpp"

#include "support/catch.hpp"

namespace query_test {

using sepal::app::query_value;

TEST_CASE("a query has values by name") {
  CHECK(query_value("a=1&bc=2&a=3", "a") == "1");
  CHECK(query_value("a=1&bc=2", "bc") == "2");
  CHECK(query_value("a=1&bc=2", "b") == std::nullopt);
  CHECK(query_value("a=", "a") == "");
  CHECK(query_value("a", "a") == std::nullopt);
  CHECK(query_value("&&a=1=2&", "a") == "1=2");
  CHECK(query_value("", "a") == std::nullopt);
}

TEST_CASE("the bytes of a value may be escaped") {
  CHECK(query_value("k=%00%fF+%26x", "k") == std::string("\0\xff+&x", 5));
  for (const char* wrong : {"k=%", "k=%1", "k=%1g", "k=a%", "k=%-1", "k=%+1"})
    CHECK(query_value(wrong, "k") == std::nullopt);
}

}  // namespace query_test
