// What was probably meant by a name that does not exist.
#pragma once

#include <string_view>

#include "setting.hpp"

namespace sepal::settings {

// The setting whose name, or whose name in redis.conf, is nearest to `name`; underscores and dashes are the
// same. Null when none is near.
[[nodiscard]] const Setting* nearest_setting(std::string_view name);

}  // namespace sepal::settings
