#include <sepal/base/random.hpp>

#include <string>

#include "support/catch.hpp"

namespace random_test {

using sepal::random_hex;

TEST_CASE("random digits come in the number that was asked for, and differ", "[base]") {
  for (const std::size_t count : {0, 1, 2, 127, 128, 129, 1024}) CHECK(random_hex(count).size() == count);
  const std::string digits = random_hex(64);
  CHECK(digits.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(digits != random_hex(64));
}

}  // namespace random_test
