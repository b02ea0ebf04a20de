// TYPE's answer for a filter: the reference's name, which clients know.
#pragma once

#include <string_view>

namespace sepal::command {

inline constexpr std::string_view filter_type_name = "MBbloom--";

}  // namespace sepal::command
