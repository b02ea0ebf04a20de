#include <sepal/base/checked.hpp>

#include "support/catch.hpp"

namespace checked_test {

using sepal::checked_add;
using sepal::checked_multiply;

TEST_CASE("a sum is exact or an error") {
  CHECK(checked_add(1, 2) == 3u);
  CHECK(checked_add(UINT64_MAX, 0) == UINT64_MAX);
  CHECK(checked_add(UINT64_MAX - 1, 1) == UINT64_MAX);
  CHECK_FALSE(checked_add(UINT64_MAX, 1));
  CHECK_FALSE(checked_add(1ull << 63, 1ull << 63));
}

TEST_CASE("a product is exact or an error") {
  CHECK(checked_multiply(6, 7) == 42u);
  CHECK(checked_multiply(UINT64_MAX, 1) == UINT64_MAX);
  CHECK(checked_multiply(UINT64_MAX, 0) == 0u);
  CHECK(checked_multiply(0xffff'ffff, 0x1'0000'0001) == UINT64_MAX);
  CHECK_FALSE(checked_multiply(1ull << 32, 1ull << 32));
  CHECK_FALSE(checked_multiply(UINT64_MAX, 2));
}

}  // namespace checked_test
