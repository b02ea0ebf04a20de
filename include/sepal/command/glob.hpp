// Patterns of KEYS, SCAN, CONFIG GET and COMMAND LIST.
#pragma once

#include <cstdint>
#include <string_view>

namespace sepal::command {

enum class Case : std::uint8_t { sensitive, ignored };

// `*` matches any bytes, `?` one byte, `[ab]` `[^ab]` `[a-z]` one byte in (not in) a class; `\` takes the
// next byte literally. A class without a `]` goes on to the end of the pattern. Costs at most pattern times
// text; allocates nothing.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text, Case letters = Case::sensitive);

[[nodiscard]] bool has_wildcard(std::string_view pattern);

}  // namespace sepal::command
