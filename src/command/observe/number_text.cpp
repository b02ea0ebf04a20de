#include "command/observe/number_text.hpp"

#include <charconv>
#include <iterator>
#include <string_view>

namespace sepal::command {

std::string fixed_point(double value, int digits) {
  char text[400];  // A double before the point has 309 digits at most.
  const auto result =
      std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed, digits);
  return {text, result.ptr};
}

std::string shortest_text(double value) {
  char text[400];
  const auto result = std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed);
  return {text, result.ptr};
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::string_view units = "BKMGTPE";
  constexpr double step = 1024;
  auto scaled = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (scaled >= step) {
    scaled /= step;
    ++unit;
  }
  return unit == 0 ? std::to_string(bytes) + "B" : fixed_point(scaled, 2) + units[unit];
}

}  // namespace sepal::command
