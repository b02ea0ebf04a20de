// The name that was probably meant by one that does not exist.
#pragma once

#include <string_view>

#include "settings/setting.hpp"

namespace sepal::settings {

// The setting whose name, or whose name in redis.conf, is nearest to `name`. Null if none is near.
[[nodiscard]] const Setting* nearest_setting(std::string_view name);

}  // namespace sepal::settings
