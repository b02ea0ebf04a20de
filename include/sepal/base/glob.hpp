// Patterns of KEYS, SCAN, CONFIG GET and COMMAND LIST.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sepal {

enum class Case : std::uint8_t { sensitive, ignored };

// `*` matches any bytes, `?` one byte, `[ab]` `[^ab]` `[a-z]` one byte in (not in) a class; `\` takes the
// next byte literally. A class without a `]` goes on to the end of the pattern. Costs at most pattern times
// text; allocates nothing.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text, Case letters = Case::sensitive);

// A pattern of more bytes matches no name: a client's long pattern must not hold up the other clients.
inline constexpr std::size_t name_pattern_bytes_max = 1024;

// The same for the name of a parameter or of a command, which is short. Letters match in either case.
[[nodiscard]] bool matches_name(std::string_view pattern, std::string_view name);

// Matches a pattern in steps, for texts and patterns of clients: a key of 65,536 bytes and a pattern of half
// as many can take seconds. Keeps positions and no views: the bytes of both may move between two steps.
class Matching {
 public:
  // Takes the next step, with the same pattern and text as the step before. Reads `bytes` bytes of the
  // pattern or a little more, and subtracts from `bytes` what it has read. The answer; nothing if it is not
  // known yet. After an answer the next step begins a new comparison.
  std::optional<bool> go_on(std::string_view pattern, std::string_view text, Case letters,
                            std::size_t& bytes);

 private:
  static constexpr std::size_t no_star = std::string_view::npos;
  std::size_t in_pattern_ = 0;
  std::size_t in_text_ = 0;
  std::size_t behind_star_ = no_star;  // where the last star ends in the pattern
  std::size_t star_took_to_ = 0;       // where the bytes of the last star end in the text
};

[[nodiscard]] bool has_wildcard(std::string_view pattern);

}  // namespace sepal
