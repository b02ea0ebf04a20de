// Numbers with units.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sepal::settings {

// Digits only. Nothing when there is anything else, or more than fits.
[[nodiscard]] std::optional<std::uint64_t> parse_digits(std::string_view text, int base = 10);

// As redis.conf: digits and one of b, k (1000), kb (1024), m, mb, g, gb, in either case. Nothing when it is
// written otherwise or does not fit.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);
// Digits and one of s, m, h, d, or no unit: seconds.
[[nodiscard]] std::optional<std::uint64_t> parse_seconds(std::string_view text);

// With the largest unit that divides it: "64mb", "1h"; without one where none does.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
[[nodiscard]] std::string seconds_text(std::uint64_t seconds);

}  // namespace sepal::settings
