// Patterns of KEYS, SCAN, CONFIG GET and COMMAND LIST.
#pragma once

#include <cstdint>
#include <string_view>

namespace sepal::command {

enum class Case : std::uint8_t { sensitive, ignored };

// `*` any bytes, `?` one byte, `[ab]` `[^ab]` `[a-z]` one byte of (not of) a class, `\` takes the next byte
// literally. A class without its end takes all that follows. Linear in pattern times text; allocates nothing.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text, Case letters = Case::sensitive);

[[nodiscard]] bool has_wildcard(std::string_view pattern);

}  // namespace sepal::command
