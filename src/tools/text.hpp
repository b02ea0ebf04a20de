// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace sepal::tools {

// As std::printf. At most 255 characters.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// For "%llu", whatever std::uint64_t is.
[[nodiscard]] constexpr unsigned long long wide(std::uint64_t value) {
  return value;
}

// "138412032 bytes (132.0 MiB)": beside the exact number a short one, where that is shorter.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

// "12.3 M": three or four digits and a unit of thousands.
[[nodiscard]] std::string amount_text(double amount);

// What the number that a system call left in `errno` means.
[[nodiscard]] std::string reason_text(int error_number);

// "0:07", "1:02:03".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace sepal::tools
