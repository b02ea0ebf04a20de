// TYPE's answers: the reference's names, which clients know.
#pragma once

#include <sepal/bloom/filter/filter.hpp>

#include <string_view>

namespace sepal::command {

inline constexpr std::string_view filter_type_name = "MBbloom--";
inline constexpr std::string_view string_type_name = "string";

// What TYPE answers for the value under a key; null: there is none.
[[nodiscard]] inline std::string_view type_name(const bloom::Filter* value) {
  if (value == nullptr) return "none";
  return value->is_string() ? string_type_name : filter_type_name;
}

}  // namespace sepal::command
