#include "app/pages/query.hpp"

#include <sepal/base/whole_number.hpp>

#include <utility>

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

// Takes the first member from `query`, without its '&'.
std::string_view take_member(std::string_view& query) {
  const std::string_view member = query.substr(0, query.find('&'));
  query.remove_prefix(member.size() == query.size() ? member.size() : member.size() + 1);
  return member;
}

}  // namespace

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view member = take_member(query);
    if (member.size() > name.size() && member.starts_with(name) && member[name.size()] == '=')
      return percent_decoded(member.substr(name.size() + 1));
  }
  return std::nullopt;
}

std::optional<std::vector<QueryMember>> query_members(std::string_view query) {
  std::vector<QueryMember> members;
  while (!query.empty()) {
    const std::string_view member = take_member(query);
    if (member.empty()) continue;
    const std::size_t equals = member.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    auto value = percent_decoded(member.substr(equals + 1));
    if (!value) return std::nullopt;
    members.push_back({.name = std::string(member.substr(0, equals)), .value = *std::move(value)});
  }
  return members;
}

}  // namespace sepal::app
