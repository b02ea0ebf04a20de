#include <sepal/metrics/exposition.hpp>
#include <sepal/metrics/json.hpp>

#include <array>
#include <charconv>
#include <cmath>

namespace sepal::metrics {
namespace {

// Enough for any double and any 64-bit integer.
constexpr std::size_t number_characters_max = 32;

template <class Number>
void append_number(std::string& text, Number value) {
  std::array<char, number_characters_max> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

}  // namespace

JsonWriter& JsonWriter::name(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view bytes) {
  separate();
  quote(bytes);
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) return null();
  separate();
  append_number(text_, value);
  return *this;
}

JsonWriter& JsonWriter::number(std::uint64_t value) {
  separate();
  append_number(text_, value);
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::plain(std::string_view value) {
  separate();
  text_ += value;
  return *this;
}

// Called before each value and each name. name() and open() clear the mark, since no comma follows a colon
// or an opening bracket.
void JsonWriter::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

void JsonWriter::quote(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr unsigned first_visible = 0x20;
  text_ += '"';
  // First made valid UTF-8, then escaped: what printable() writes has a backslash, which JSON escapes too.
  for (const char character : printable(bytes)) {
    const auto code = static_cast<unsigned char>(character);
    if (code < first_visible) {
      text_.append("\\u00").append(1, digits[code >> 4]).append(1, digits[code & 15]);
      continue;
    }
    if (character == '"' || character == '\\') text_ += '\\';
    text_ += character;
  }
  text_ += '"';
}

}  // namespace sepal::metrics
