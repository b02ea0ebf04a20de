// Which words of a request are keys.
#pragma once

#include <sepal/base/arguments.hpp>
#include <sepal/command/table/command_table.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace sepal::command {

// The number of keys that a word of the request gives; nothing if that word is no such number.
[[nodiscard]] inline std::optional<std::size_t> counted_keys(const CommandSpec& row,
                                                             std::span<const std::string_view> words) {
  const auto count_at = static_cast<std::size_t>(row.keys.count_at);
  const auto count = parse_integer(words[count_at]);
  if (!count || *count < 0 || static_cast<std::size_t>(*count) > words.size() - count_at - 1)
    return std::nullopt;
  return static_cast<std::size_t>(*count);
}

// What a command does to its first key, and to the others: KeyRange::access has both if it has a '/'.
struct KeyAccess {
  std::string_view of_first;
  std::string_view of_others;
};
[[nodiscard]] constexpr KeyAccess access_of(const KeyRange& keys) {
  const std::size_t divider = keys.access.find('/');
  if (divider == std::string_view::npos) return {keys.access, keys.access};
  return {keys.access.substr(0, divider), keys.access.substr(divider + 1)};
}

// Visits the index of each key of a request, with what the command does to it in the reference's words.
template <class Visit>
void for_each_key(const CommandSpec& row, std::span<const std::string_view> words, const Visit& visit) {
  const KeyRange& keys = row.keys;
  const KeyAccess access = access_of(keys);
  if (keys.count_at != 0) {
    if (keys.first != 0) visit(static_cast<std::size_t>(keys.first), access.of_first);
    const std::size_t count = counted_keys(row, words).value_or(0);
    const auto before = static_cast<std::size_t>(keys.count_at);
    for (std::size_t at = before + 1; at <= before + count; ++at) visit(at, access.of_others);
    return;
  }
  if (keys.first == 0) return;
  if (row.key_use != nullptr) {
    const KeyUse use = row.key_use(words);
    auto at = static_cast<std::size_t>(keys.first);
    for (std::size_t key = 0; key < use.count && at < words.size();
         ++key, at += static_cast<std::size_t>(keys.step))
      visit(at, use.access);
    return;
  }
  const auto first = static_cast<std::size_t>(keys.first);
  // A negative position counts from the end: the end of the words is behind position -1.
  const std::size_t end = keys.last < 0 ? words.size() - static_cast<std::size_t>(-keys.last - 1)
                                        : static_cast<std::size_t>(keys.last) + 1;
  for (std::size_t at = first; at < end && at < words.size(); at += static_cast<std::size_t>(keys.step))
    visit(at, at == first ? access.of_first : access.of_others);
}

}  // namespace sepal::command
