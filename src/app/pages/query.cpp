#include "app/pages/query.hpp"

#include <sepal/base/whole_number.hpp>

namespace sepal::app {
namespace {

std::optional<std::string> percent_decoded(std::string_view text) {
  constexpr std::size_t escape_length = 3;
  constexpr int hexadecimal = 16;
  std::string bytes;
  while (!text.empty()) {
    if (text[0] != '%') {
      bytes += text[0];
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < escape_length) return std::nullopt;
    const auto byte = parse_whole<unsigned char>(text.substr(1, escape_length - 1), hexadecimal);
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
    text.remove_prefix(escape_length);
  }
  return bytes;
}

}  // namespace

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view member = query.substr(0, query.find('&'));
    query.remove_prefix(member.size() == query.size() ? member.size() : member.size() + 1);
    if (member.size() > name.size() && member.starts_with(name) && member[name.size()] == '=')
      return percent_decoded(member.substr(name.size() + 1));
  }
  return std::nullopt;
}

}  // namespace sepal::app
