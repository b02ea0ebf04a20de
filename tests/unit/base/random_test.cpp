#include <sepal/base/random.hpp>

#include "support/catch.hpp"

namespace random_test {

using sepal::random_hex;

TEST_CASE("random digits come in the number that was asked for, and differ") {
  for (const std::size_t count : {0, 1, 2, 127, 128, 129, 1024}) CHECK(random_hex(count).size() == count);
  const std::string digits = random_hex(64);
  CHECK(digits.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(digits != random_hex(64));
}

TEST_CASE("random numbers differ, however many are drawn at once") {
  std::array<std::uint64_t, sepal::random_numbers_max> drawn{};
  sepal::draw_random(drawn);
  std::set<std::uint64_t> known(drawn.begin(), drawn.end());
  known.insert(sepal::random_number());
  CHECK(known.size() == drawn.size() + 1);
  CHECK(known.count(0) == 0);
}

}  // namespace random_test
