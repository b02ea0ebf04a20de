// Parsers for the values of parameters, by the reference's rules. A parser changes nothing. If the word is
// not such a value, it returns the reference's error text.
#pragma once

#include <sepal/command/run/services.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace sepal::command {

// The error text is the part that follows "(possibly related to argument 'x') - ".
template <class Value>
using ConfigValue = std::variant<Value, std::string>;

struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t greatest = 0;
};
[[nodiscard]] ConfigValue<std::int64_t> parse_config_integer(std::string_view word, IntegerRange range);

[[nodiscard]] ConfigValue<bool> parse_config_switch(std::string_view word);

// The most pairs in "save": a client could make the text as long as it likes.
inline constexpr std::size_t save_points_max = 64;

// Pairs of "seconds changes". Sepal saves if anything has changed, so the pair with the fewest changes
// decides.
// "" gives an interval of 0: no saves on a timer. The text has single blanks.
[[nodiscard]] ConfigValue<SavePoints> parse_save_points(std::string_view word);

}  // namespace sepal::command
