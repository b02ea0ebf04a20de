// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace sepal::tools {

// Formats like std::printf. The result has at most 255 characters.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// Converts for "%llu", whatever type std::uint64_t is.
[[nodiscard]] constexpr unsigned long long wide(std::uint64_t value) {
  return value;
}

// "138412032 bytes (132.0 MiB)": the exact number, and from 1 KiB on a short one.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

// "12.3 M": three or four digits and a unit of thousands.
[[nodiscard]] std::string amount_text(double amount);

// The system's text for a number that a system call left in `errno`.
[[nodiscard]] std::string reason_text(int error_number);

// "0:07", "1:02:03".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace sepal::tools
