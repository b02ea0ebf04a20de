// Turns words of a request into values, by the reference's rules: Sepal takes a word as a number exactly when
// the reference does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sepal {

[[nodiscard]] constexpr char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}
[[nodiscard]] constexpr char upper(char letter) {
  return letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
}
[[nodiscard]] constexpr bool is_letter(char byte) {
  return lower(byte) >= 'a' && lower(byte) <= 'z';
}
// ASCII letters only, whatever the locale.
[[nodiscard]] constexpr bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  // The lower and the upper case of a letter differ in one bit.
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int difference = a[i] ^ b[i];
    if (difference != 0 && (difference != ('a' ^ 'A') || !is_letter(a[i]))) return false;
  }
  return true;
}
// The bytes of all words, together.
[[nodiscard]] constexpr std::size_t byte_count_of(std::span<const std::string_view> words) {
  std::size_t byte_count = 0;
  for (const std::string_view word : words) byte_count += word.size();
  return byte_count;
}
[[nodiscard]] std::string lower_case(std::string_view text);
[[nodiscard]] std::string upper_case(std::string_view text);

// How much of a client's word an error repeats.
inline constexpr std::size_t echoed_bytes_max = 128;
[[nodiscard]] constexpr std::string_view echoed(std::string_view word) {
  return word.substr(0, echoed_bytes_max);
}

// Strict decimal: no '+', no leading zero, no space, nothing after the digits. "-0" is not a number.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view word);
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view word);
// Takes what strtod takes in the C locale, if it fills the word: exponents, hexadecimal, infinities. Does not
// take "nan", surrounding space, or a number outside the range of a double.
[[nodiscard]] std::optional<double> parse_real(std::string_view word);
// The shortest digits that parse_real() reads back as the same value; "inf", "-inf" and "nan".
[[nodiscard]] std::string digits_of_real(double value);

}  // namespace sepal
