#include "app/pages/query.hpp"

#include "support/catch.hpp"

namespace query_test {

using sepal::app::query_members;
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

TEST_CASE("all members of a query are told, and none that is half") {
  const auto members = query_members("a=1&&b=%26=2&a=");
  REQUIRE(members);
  REQUIRE(members->size() == 3);
  CHECK(((*members)[0].name == "a" && (*members)[0].value == "1"));
  CHECK(((*members)[1].name == "b" && (*members)[1].value == "&=2"));
  CHECK(((*members)[2].name == "a" && (*members)[2].value.empty()));
  CHECK(query_members("")->empty());
  for (const char* wrong : {"a", "a=1&b", "a=%zz", "a=1&b=%4"}) CHECK_FALSE(query_members(wrong));
}

}  // namespace query_test
