#include "command/server/config_values.hpp"

#include <sepal/base/arguments.hpp>

#include <algorithm>
#include <limits>
#include <optional>

namespace sepal::command {
namespace {

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
  if (*value < range.least || *value > range.greatest) {
    return "argument must be between " + std::to_string(range.least) + " and " +
           std::to_string(range.greatest) + " inclusive";
  }
  return *value;
}

ConfigValue<bool> parse_config_switch(std::string_view word) {
  if (equal_ignoring_case(word, "yes")) return true;
  if (equal_ignoring_case(word, "no")) return false;
  return "argument must be 'yes' or 'no'";
}

ConfigValue<SavePoints> parse_save_points(std::string_view word) {
  constexpr std::string_view invalid = "Invalid save parameters";
  constexpr std::int64_t seconds_max = std::numeric_limits<std::int32_t>::max();
  SavePoints points{.text = {}, .interval = std::chrono::seconds(0)};
  std::int64_t fewest_changes = std::numeric_limits<std::int64_t>::max();
  std::string_view rest = word;
  // Each turn takes a pair. A last number without its partner ends as an invalid pair, because an empty word
  // is no number.
  for (std::size_t count = 0;; ++count) {
    const std::string_view first = next_word(rest);
    if (first.empty()) return points;
    if (count == save_points_max) return std::string(invalid);
    const std::optional<std::int64_t> seconds = parse_integer(first);
    const std::optional<std::int64_t> changes = parse_integer(next_word(rest));
    if (!seconds || !changes || *seconds < 1 || *seconds > seconds_max || *changes < 0)
      return std::string(invalid);
    points.text +=
        (points.text.empty() ? "" : " ") + std::to_string(*seconds) + " " + std::to_string(*changes);
    if (*changes < fewest_changes) {
      fewest_changes = *changes;
      points.interval = std::chrono::seconds(*seconds);
    }
  }
}

}  // namespace sepal::command
