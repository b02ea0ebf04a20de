#include "config_values.hpp"

#include <sepal/base/checked.hpp>

#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "arguments.hpp"

namespace sepal::command {
namespace {

template <class Number>
std::string out_of_range(Number least, Number greatest) {
  return "argument must be between " + std::to_string(least) + " and " + std::to_string(greatest) +
         " inclusive";
}

// The bytes of the unit that follows a number ("kb"); nothing if the word is not a unit.
std::optional<std::uint64_t> unit_bytes(std::string_view unit) {
  constexpr std::pair<std::string_view, std::uint64_t> units[] = {
      {"", 1},          {"b", 1},           {"k", 1000},          {"kb", 1ull << 10},
      {"m", 1'000'000}, {"mb", 1ull << 20}, {"g", 1'000'000'000}, {"gb", 1ull << 30}};
  for (const auto& [name, bytes] : units)
    if (equal_ignoring_case(unit, name)) return bytes;
  return std::nullopt;
}

std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace

ConfigValue<std::int64_t> parse_config_integer(std::string_view word, IntegerRange range) {
  const std::optional<std::int64_t> value = parse_integer(word);
  if (!value) return "argument couldn't be parsed into an integer";
  if (*value < range.least || *value > range.greatest) return out_of_range(range.least, range.greatest);
  return *value;
}

ConfigValue<std::uint64_t> parse_config_memory(std::string_view word, MemoryRange range) {
  const std::string_view digits = word.substr(0, word.find_first_not_of("0123456789"));
  std::uint64_t number = 0;
  const auto error = std::from_chars(digits.data(), digits.data() + digits.size(), number).ec;
  const std::optional<std::uint64_t> unit = unit_bytes(word.substr(digits.size()));
  const bool parsed = !digits.empty() && error == std::errc() && unit;
  const std::optional<std::uint64_t> bytes =
      parsed ? checked_multiply(number, unit.value_or(1)) : std::nullopt;
  if (!bytes) return "argument must be a memory value";
  if (*bytes < range.least || *bytes > range.greatest) return out_of_range(range.least, range.greatest);
  return *bytes;
}

ConfigValue<bool> parse_config_switch(std::string_view word) {
  if (equal_ignoring_case(word, "yes")) return true;
  if (equal_ignoring_case(word, "no")) return false;
  return "argument must be 'yes' or 'no'";
}

ConfigValue<std::chrono::seconds> parse_save_points(std::string_view word) {
  constexpr std::string_view invalid = "Invalid save parameters";
  constexpr std::int64_t seconds_max = std::numeric_limits<std::int32_t>::max();
  std::chrono::seconds interval{0};
  std::int64_t fewest_changes = std::numeric_limits<std::int64_t>::max();
  for (std::string_view rest = word;;) {
    const std::string_view first = next_word(rest);
    if (first.empty()) return interval;
    const std::optional<std::int64_t> seconds = parse_integer(first);
    const std::optional<std::int64_t> changes = parse_integer(next_word(rest));
    if (!seconds || !changes || *seconds < 1 || *seconds > seconds_max || *changes < 0)
      return std::string(invalid);
    if (*changes < fewest_changes) {
      fewest_changes = *changes;
      interval = std::chrono::seconds(*seconds);
    }
  }
}

std::string real_text(double value) {
  char digits[32];  // The shortest form of a double takes 24.
  const auto result = std::to_chars(std::begin(digits), std::end(digits), value);
  return {digits, result.ptr};
}

}  // namespace sepal::command
