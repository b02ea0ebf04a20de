#include <sepal/base/arguments.hpp>
#include <sepal/storage/disk/fact.hpp>

#include <array>
#include <charconv>

namespace sepal::storage {
namespace {

bool is_plain(char c) {
  return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

// Puts a value between quotes. A byte that is not plain becomes `escape` and two hexadecimal digits. A key
// may be any bytes, so each byte is escaped by itself, and none is taken for a part of UTF-8.
std::string quoted(std::string_view value, std::string_view escape) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_plain(c)) {
      text += c;
    } else {
      text.append(escape).append({digits[byte >> 4], digits[byte & 15]});
    }
  }
  return text + "\"";
}

}  // namespace

Fact::Fact(std::string_view what) : line_(what), json_("{\"what\":" + quoted(what, "\\u00")) {}

// The names are Sepal's own words, so they need no escapes. The values have theirs already.
Fact& Fact::put(std::string_view name, std::string_view text, std::string_view json) {
  line_.append(" ").append(name).append("=").append(text);
  json_.append(",\"").append(name).append("\":").append(json);
  return *this;
}

Fact& Fact::text(std::string_view name, std::string_view value) {
  return put(name, quoted(value, "\\x"), quoted(value, "\\u00"));
}

Fact& Fact::number(std::string_view name, std::uint64_t value) {
  const std::string text = std::to_string(value);
  return put(name, text, text);
}

Fact& Fact::identity(std::string_view name, std::uint64_t value) {
  constexpr int hexadecimal = 16;
  std::array<char, hexadecimal> digits;
  auto* const end = std::to_chars(digits.begin(), digits.end(), value, hexadecimal).ptr;
  const std::string text = "0x" + std::string(digits.begin(), end);
  return put(name, text, "\"" + text + "\"");
}

Fact& Fact::real(std::string_view name, double value) {
  const std::string written = digits_of_real(value);
  // JSON has no infinities and no NaN. The difference of such a value with itself is a NaN, and equals
  // nothing.
  const bool finite = value - value == 0;
  return put(name, written, finite ? std::string_view(written) : "null");
}

}  // namespace sepal::storage
