// Random digits that an attacker cannot guess.
#pragma once

#include <cstddef>
#include <string>

namespace sepal {

// So many lower-case hexadecimal digits, from the system's generator. Any thread.
[[nodiscard]] std::string random_hex(std::size_t digit_count);

}  // namespace sepal
