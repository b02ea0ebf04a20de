// The values in the query of a request: "database=0&key=user%3A1".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::app {

// The value of the first member of this name, with %XX decoded; "+" stays. Nothing if there is none, or if a
// "%" has no two digits behind it.
[[nodiscard]] std::optional<std::string> query_value(std::string_view query, std::string_view name);

struct QueryMember {
  std::string name;
  std::string value;  // decoded
};

// All members, in their order. Nothing if one has no "=", or a "%" without two digits behind it.
[[nodiscard]] std::optional<std::vector<QueryMember>> query_members(std::string_view query);

}  // namespace sepal::app
