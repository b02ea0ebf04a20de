// Enumerations whose values people write as words, in settings for example.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace sepal {

// The words of an enumeration whose values count up from 0. Each enumeration specialises it beside itself.
template <class Choice>
inline constexpr std::array<std::string_view, 0> choice_names{};

template <class Choice>
constexpr std::string_view name_of(Choice choice) {
  return choice_names<Choice>.at(static_cast<std::size_t>(choice));
}

// Nothing if no value has this name.
template <class Choice>
constexpr std::optional<Choice> choice_of(std::string_view name) {
  const auto* const found = std::ranges::find(choice_names<Choice>, name);
  if (found == choice_names<Choice>.end()) return std::nullopt;
  return static_cast<Choice>(found - choice_names<Choice>.begin());
}

}  // namespace sepal
