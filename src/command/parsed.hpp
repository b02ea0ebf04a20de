// What parsing words of a request gives: a value, or the text that the client gets instead.
#pragma once

#include <string_view>
#include <variant>

namespace sepal::command {

struct Refusal {
  std::string_view text;
};

template <class Value>
using Parsed = std::variant<Value, Refusal>;

}  // namespace sepal::command
