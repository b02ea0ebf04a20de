// Numbers for people.
#pragma once

#include <cstdint>
#include <string>

namespace sepal::tools {

// As std::printf. At most 255 characters.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

// "138412032 bytes (132.0 MiB)": beside the exact number a short one, where that is shorter.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

// "12.3 M": three or four digits and a unit of thousands.
[[nodiscard]] std::string amount_text(double amount);

// "0:07", "1:02:03".
[[nodiscard]] std::string duration_text(double seconds);

}  // namespace sepal::tools
