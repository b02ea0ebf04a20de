// Numbers from text, in the C locale, where the number has to be all of the text.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace sepal {

// Takes no '+', no space and no prefix such as "0x", and for an unsigned number no '-'. Leading zeros may
// stand there. Empty if the text is no such number, or if the number does not fit. For words of a request,
// see arguments.hpp: the reference's rules are stricter.
template <std::integral Number>
[[nodiscard]] std::optional<Number> parse_whole(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}
// Takes "nan" and "inf" as well.
template <std::floating_point Number>
[[nodiscard]] std::optional<Number> parse_whole(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace sepal
