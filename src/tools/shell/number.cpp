// Numbers are read without floating point, so that they are exact: the digits are one whole number, and the
// point, the exponent and the unit are one power of ten. "1.5k" is 15 and a power of 2.
#include "tools/shell/number.hpp"

#include <sepal/base/checked.hpp>
#include <sepal/base/whole_number.hpp>

#include <cmath>
#include <string>
#include <utility>

namespace sepal::tools {
namespace {

constexpr std::string_view decimal_digits = "0123456789";

// No number that fits has more digits, apart from leading zeros. This also limits the exponents.
constexpr std::size_t digits_max = 40;

// Removes a unit from the end of the text. Returns its power of ten.
int take_unit(std::string_view& text) {
  if (text.empty()) return 0;
  int power = 0;
  switch (text.back()) {
    case 'k':
    case 'K': power = 3; break;
    case 'm':
    case 'M': power = 6; break;
    case 'g':
    case 'G': power = 9; break;
    default: return 0;
  }
  text.remove_suffix(1);
  return power;
}

// Removes an exponent from the end of the text. Returns it; 0 if there is none, empty if it is not a number.
std::optional<int> take_exponent(std::string_view& text) {
  const std::size_t at = text.find_first_of("eE");
  if (at == std::string_view::npos) return 0;
  std::string_view digits = text.substr(at + 1);
  text = text.substr(0, at);
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() ||
      digits.find_first_not_of(decimal_digits, digits.front() == '-' ? 1 : 0) != std::string_view::npos)
    return std::nullopt;
  const auto exponent = parse_whole<int>(digits);
  if (!exponent || *exponent > static_cast<int>(digits_max) || *exponent < -static_cast<int>(digits_max))
    return std::nullopt;
  return exponent;
}

// Removes a unit of time from the end of the text. Returns its milliseconds.
double take_time_unit(std::string_view& text) {
  constexpr double second = 1000;
  constexpr double minute = 60 * second;
  constexpr double hour = 60 * minute;
  constexpr double day = 24 * hour;
  // "ms" comes before "s", which is its end.
  constexpr std::pair<std::string_view, double> units[] = {{"ms", 1},   {"s", second}, {"m", minute},
                                                           {"h", hour}, {"d", day},    {"w", 7 * day}};
  for (const auto& [name, milliseconds] : units)
    if (text.ends_with(name)) {
      text.remove_suffix(name.size());
      return milliseconds;
    }
  return second;
}

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  int power = take_unit(text);
  const auto exponent = take_exponent(text);
  if (!exponent) return std::nullopt;
  power += *exponent;

  const std::size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  if (point != std::string_view::npos) {
    const std::string_view fraction = text.substr(point + 1);
    if (fraction.size() > digits_max) return std::nullopt;
    digits += fraction;
    power -= static_cast<int>(fraction.size());
  }
  if (digits.empty() || digits.find_first_not_of(decimal_digits) != std::string::npos) return std::nullopt;
  // A negative power takes zeros from the end. Any other digit there means that the number is not whole.
  for (; power < 0; ++power) {
    if (digits.size() > 1 ? digits.back() != '0' : digits != "0") return std::nullopt;
    if (digits.size() > 1) digits.pop_back();
  }
  auto number = parse_whole<std::uint64_t>(digits);
  // A number that does not fit becomes empty here, and stays so.
  for (; number && power > 0; --power) number = checked_multiply(*number, 10);
  return number;
}

std::optional<std::uint64_t> parse_bits(std::string_view text) {
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  return is_hexadecimal ? parse_whole<std::uint64_t>(text.substr(2), 16) : parse_whole<std::uint64_t>(text);
}

std::optional<double> parse_rate(std::string_view text) {
  const std::optional<double> rate = parse_whole<double>(text);
  return rate && *rate > 0 && *rate < 1 ? rate : std::nullopt;
}

std::optional<std::uint64_t> parse_duration(std::string_view text) {
  // Up to here, each whole number is exact in floating point.
  constexpr double milliseconds_max = 9007199254740992;
  const double unit = take_time_unit(text);
  const auto number = parse_whole<double>(text);
  if (!number) return std::nullopt;
  const double milliseconds = std::round(*number * unit);
  // Refuses NaN, too.
  if (!(milliseconds >= 1 && milliseconds <= milliseconds_max)) return std::nullopt;
  return static_cast<std::uint64_t>(milliseconds);
}

std::optional<Pace> parse_pace(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto count = parse_count(text.substr(0, slash));
  const std::string_view time = text.substr(slash + 1);
  std::string_view rest = time;
  take_time_unit(rest);
  const auto milliseconds =
      rest.empty() && !time.empty() ? parse_duration("1" + std::string(time)) : parse_duration(time);
  if (!count || *count == 0 || !milliseconds) return std::nullopt;
  return Pace{.count = *count, .milliseconds = *milliseconds};
}

}  // namespace sepal::tools
