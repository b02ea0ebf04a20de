#include "tools/shell/text.hpp"

#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <system_error>

namespace sepal::tools {

std::string format(const char* pattern, ...) {
  std::array<char, 256> text;
  va_list arguments;
  va_start(arguments, pattern);
  // A longer text is cut, and ends with a zero in any case.
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> units = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; amount >= 1024 && unit + 1 < units.size(); amount /= 1024) ++unit;
  if (unit == 0) return format("%llu bytes", wide(bytes));
  return format("%llu bytes (%.1f %s)", wide(bytes), amount, units[unit]);
}

std::string amount_text(double amount) {
  constexpr std::array<const char*, 5> units = {"", " k", " M", " G", " T"};
  std::size_t unit = 0;
  for (; amount >= 1000 && unit + 1 < units.size(); amount /= 1000) ++unit;
  return format(unit == 0 ? "%.0f%s" : "%.1f%s", amount, units[unit]);
}

std::string reason_text(int error_number) {
  return std::generic_category().message(error_number);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(seconds);
  constexpr unsigned long long minute = 60;
  constexpr unsigned long long hour = 60 * minute;
  if (whole < hour) return format("%llu:%02llu", whole / minute, whole % minute);
  return format("%llu:%02llu:%02llu", whole / hour, whole % hour / minute, whole % minute);
}

}  // namespace sepal::tools
