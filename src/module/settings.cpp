#include "settings.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/bloom/options.hpp>

namespace sepal::module {
namespace {

// The texts are those for clients, which begin with a code.
std::string sentence(std::string_view name, std::string_view text) {
  if (text.empty()) return {};
  constexpr std::string_view code = "ERR ";
  if (text.starts_with(code)) text.remove_prefix(code.size());
  return std::string(name) + ": " + std::string(text);
}

std::string read_setting(std::string_view name, std::string_view value, Settings& into) {
  if (equal_ignoring_case(name, "ERROR_RATE"))
    return sentence(name, bloom::read_rate(value, into.options.error_rate));
  if (equal_ignoring_case(name, "INITIAL_SIZE") || equal_ignoring_case(name, "CAPACITY"))
    return sentence(name, bloom::read_capacity(value, into.options.capacity));
  if (equal_ignoring_case(name, "EXPANSION"))
    return sentence(name, bloom::read_expansion(value, into.options.expansion));
  if (equal_ignoring_case(name, "SEED")) {
    into.seed = parse_unsigned(value);
    return into.seed ? std::string()
                     : std::string(name) + ": it must be a number from 0 to 18446744073709551615";
  }
  return "unknown argument " + std::string(echoed(name)) +
         "; known are ERROR_RATE, INITIAL_SIZE, CAPACITY, EXPANSION and SEED, each with a value";
}

}  // namespace

std::string read_settings(Words words, Settings& into) {
  for (std::size_t at = 0; at < words.size(); at += 2) {
    if (at + 1 == words.size()) return std::string(echoed(words[at])) + ": its value is missing";
    if (std::string wrong = read_setting(words[at], words[at + 1], into); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace sepal::module
