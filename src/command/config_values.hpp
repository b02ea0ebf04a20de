// Parsers for the values of parameters, by the reference's rules. A parser changes nothing. If the word is
// not such a value, it returns the reference's error text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace sepal::command {

// The error text is the part that follows "(possibly related to argument 'x') - ".
template <class Value>
using ConfigValue = std::variant<Value, std::string>;

struct IntegerRange {
  std::int64_t least;
  std::int64_t greatest;
};
[[nodiscard]] ConfigValue<std::int64_t> parse_config_integer(std::string_view word, IntegerRange range);

// "100mb", "1k" (1000), "1kb" (1024), "" (0).
struct MemoryRange {
  std::uint64_t least;
  std::uint64_t greatest;
};
[[nodiscard]] ConfigValue<std::uint64_t> parse_config_memory(std::string_view word, MemoryRange range);

[[nodiscard]] ConfigValue<bool> parse_config_switch(std::string_view word);

// Pairs of "seconds changes". Sepal saves if anything has changed, so the pair with the fewest changes
// decides.
// "" gives 0: no saves on a timer.
[[nodiscard]] ConfigValue<std::chrono::seconds> parse_save_points(std::string_view word);

// The shortest text that reads back as the same number: "0.01".
[[nodiscard]] std::string real_text(double value);

}  // namespace sepal::command
