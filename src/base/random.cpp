#include <sepal/base/assert.hpp>
#include <sepal/base/random.hpp>

#include <array>
#include <string_view>
#include <unistd.h>

namespace sepal {

void draw_random(std::span<std::uint64_t> numbers) {
  SEPAL_ASSERT(numbers.size() <= random_numbers_max, "more random numbers than the system gives at once");
  // getentropy() gives all bytes or none, and at most 256 at once. The call may stand in an assertion,
  // because assertions stay on in every build. There is no way out: numbers that an attacker can guess must
  // not be used.
  SEPAL_ASSERT(getentropy(numbers.data(), numbers.size_bytes()) == 0, "the system gives no random numbers");
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  draw_random({&number, 1});
  return number;
}

std::string random_hex(std::size_t digit_count) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string digits;
  // A byte makes two digits: one may be too many, and is cut off below.
  digits.reserve(digit_count + 1);
  while (digits.size() < digit_count) {
    std::array<std::uint64_t, 8> drawn{};
    draw_random(drawn);
    for (const std::byte byte : std::as_bytes(std::span(drawn))) {
      if (digits.size() >= digit_count) break;
      digits.push_back(hex[std::to_integer<unsigned>(byte) >> 4]);
      digits.push_back(hex[std::to_integer<unsigned>(byte) & 0xf]);
    }
  }
  digits.resize(digit_count);
  return digits;
}

}  // namespace sepal
