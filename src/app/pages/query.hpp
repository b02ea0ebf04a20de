// The values in the query of a request: "database=0&key=user%3A1".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sepal::app {

// The value of the first member of this name, with %XX decoded; "+" stays. Nothing if there is none, or if a
// "%" has no two digits behind it.
[[nodiscard]] std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace sepal::app
