// Lists of words in one string, separated by single blanks, as tables hold them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace sepal {

template <class Visit>
constexpr void for_each_word(std::string_view list, const Visit& visit) {
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(' '));
    visit(word);
    list.remove_prefix(std::min(word.size() + 1, list.size()));
  }
}

[[nodiscard]] constexpr std::size_t word_count(std::string_view list) {
  std::size_t count = 0;
  for_each_word(list, [&](std::string_view) { ++count; });
  return count;
}

}  // namespace sepal
