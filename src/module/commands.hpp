// The BF commands of the module.
#pragma once

#include "module/api.hpp"
#include "module/settings.hpp"

namespace sepal::module {

// When the module is loaded. `settings` lives as long as the server. False: the server has refused a command.
[[nodiscard]] bool create_commands(RedisModuleCtx* context, const Settings& settings);

}  // namespace sepal::module
