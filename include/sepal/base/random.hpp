// Random numbers and digits that an attacker cannot guess, from the system's generator. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sepal {

// At most 32 numbers. They take one system call together.
inline constexpr std::size_t random_numbers_max = 32;
void draw_random(std::span<std::uint64_t> numbers);
[[nodiscard]] std::uint64_t random_number();

// So many lower-case hexadecimal digits.
[[nodiscard]] std::string random_hex(std::size_t digit_count);

}  // namespace sepal
