#include <sepal/base/arguments.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace sepal {
std::string lower_case(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), lower);
  return lowered;
}

std::string upper_case(std::string_view text) {
  std::string raised(text);
  std::ranges::transform(raised, raised.begin(), upper);
  return raised;
}

std::optional<std::int64_t> parse_integer(std::string_view word) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  const bool negative = word.starts_with('-');
  const auto size = parse_unsigned(word.substr(negative ? 1 : 0));
  // The least integer has no positive counterpart, so the limit of a negative number is one higher.
  if (!size || *size > most + (negative ? 1 : 0) || (negative && *size == 0)) return std::nullopt;
  return static_cast<std::int64_t>(negative ? 0 - *size : *size);
}

// One pass, and not std::from_chars behind a check: a script that sets bits gives its offsets as text.
std::optional<std::uint64_t> parse_unsigned(std::string_view word) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  if (word.empty() || (word.size() > 1 && word.front() == '0')) return std::nullopt;
  std::uint64_t value = 0;
  for (const char each : word) {
    // Both tests come before the arithmetic that would wrap.
    if (each < '0' || each > '9' || value > most / 10) return std::nullopt;
    const auto digit = static_cast<std::uint64_t>(each - '0');
    value *= 10;
    if (value > most - digit) return std::nullopt;
    value += digit;
  }
  return value;
}

std::optional<double> parse_real(std::string_view word) {
  // from_chars knows neither a plus sign nor the prefix of hexadecimal numbers.
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  // from_chars takes a minus sign, so a second sign would pass.
  if (word.starts_with('-')) return std::nullopt;
  auto format = std::chars_format::general;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    word.remove_prefix(2);
    if (word.starts_with('-')) return std::nullopt;
    format = std::chars_format::hex;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, format);
  if (error != std::errc() || end != word.data() + word.size() || std::isnan(value)) return std::nullopt;
  // from_chars would also take "0xinf" as a hexadecimal number.
  if (format == std::chars_format::hex && std::isinf(value)) return std::nullopt;
  return negative ? -value : value;
}

std::string digits_of_real(double value) {
  std::array<char, 32> digits{};  // the longest, "-2.2250738585072014e-308", has 24
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

}  // namespace sepal
