// The outcome of parsing words of a request: a value, or the error text for the client.
#pragma once

#include <string_view>
#include <variant>

namespace sepal {

struct Refusal {
  std::string_view text;
};

template <class Value>
using Parsed = std::variant<Value, Refusal>;

}  // namespace sepal
