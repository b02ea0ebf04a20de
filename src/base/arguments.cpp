#include <sepal/base/arguments.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace sepal {
namespace {

bool is_strict_decimal(std::string_view digits) {
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return false;
  return std::ranges::all_of(digits, [](char digit) { return digit >= '0' && digit <= '9'; });
}

template <class Integer>
std::optional<Integer> convert(std::string_view word) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

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
  const bool negative = word.starts_with('-');
  if (!is_strict_decimal(word.substr(negative ? 1 : 0)) || word == "-0") return std::nullopt;
  return convert<std::int64_t>(word);
}

std::optional<std::uint64_t> parse_unsigned(std::string_view word) {
  if (!is_strict_decimal(word)) return std::nullopt;
  return convert<std::uint64_t>(word);
}

std::optional<double> parse_real(std::string_view word) {
  // from_chars knows neither a plus sign nor the prefix of hexadecimal numbers.
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
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
