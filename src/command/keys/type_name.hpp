// TYPE's answers: the reference's names, which clients know.
#pragma once

#include <sepal/value/kind_row.hpp>

#include <string_view>

namespace sepal::command {

// What TYPE answers for the value under a key; null: there is none.
[[nodiscard]] inline std::string_view type_name(const value::Value* value) {
  return value == nullptr ? "none" : value::row_of(*value).type_name;
}

}  // namespace sepal::command
