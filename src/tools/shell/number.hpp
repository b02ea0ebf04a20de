// Numbers as they are written on a command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sepal::tools {

// A whole number: digits, perhaps with a decimal point, an exponent or a unit: 100000000, 1e8, 1.5k, 100m,
// 2g. A unit is thousands (k), millions (m) or thousands of millions (g). Exact: empty if the result is not
// whole or does not fit, or if the text is written otherwise.
[[nodiscard]] std::optional<std::uint64_t> parse_count(std::string_view text);

// Decimal digits, or hexadecimal digits behind "0x".
[[nodiscard]] std::optional<std::uint64_t> parse_bits(std::string_view text);

// A number above 0 and below 1.
[[nodiscard]] std::optional<double> parse_rate(std::string_view text);

// A time above 0, in milliseconds: a number and a unit, as in 500ms, 90s, 15m, 1.5h, 7d and 2w. Without a
// unit the number is of seconds. Rounded to a whole millisecond.
[[nodiscard]] std::optional<std::uint64_t> parse_duration(std::string_view text);

struct Pace {
  std::uint64_t count = 0;
  std::uint64_t milliseconds = 0;
};
// A count of at least 1 and a time: 20000/s, 1.5m/h, 3k/15m. The number of the time may be left out.
[[nodiscard]] std::optional<Pace> parse_pace(std::string_view text);

}  // namespace sepal::tools
