#include <sepal/base/result.hpp>

#include "support/catch.hpp"

namespace result_test {

using namespace sepal;

namespace {

Result<int> half_of(int value) {
  if (value % 2 != 0) return fail(Errc::out_of_range, "odd");
  return value / 2;
}

Result<void> check_even(int value) {
  if (value % 2 != 0) return fail(Errc::out_of_range);
  return {};
}

}  // namespace

TEST_CASE("a result holds a value or an error") {
  const auto good = half_of(8);
  REQUIRE(good.ok());
  CHECK(static_cast<bool>(good));
  CHECK(*good == 4);

  const auto bad = half_of(7);
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().code == Errc::out_of_range);
  CHECK(bad.error().detail == "odd");
}

TEST_CASE("a result without a value is success or an error") {
  CHECK(check_even(2).ok());
  const auto bad = check_even(3);
  REQUIRE_FALSE(static_cast<bool>(bad));
  CHECK(bad.error().code == Errc::out_of_range);
  CHECK(bad.error().detail.empty());
}

TEST_CASE("a result can hold a value that can only be moved") {
  Result<std::unique_ptr<std::string>> result(std::make_unique<std::string>("value"));
  REQUIRE(result.ok());
  CHECK(result->get()->size() == 5);
  const std::unique_ptr<std::string> taken = *std::move(result);
  CHECK(*taken == "value");
}

TEST_CASE("the value in a result can be changed in place") {
  Result<std::string> result(std::string("a"));
  *result += "b";
  result->push_back('c');
  CHECK(*result == "abc");
}

}  // namespace result_test
