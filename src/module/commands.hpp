// The commands of the module.
#pragma once

#include <span>

#include "module/api.hpp"
#include "module/command.hpp"
#include "module/settings.hpp"

namespace sepal::module {

// When the module is loaded. `settings` lives as long as the server. False: the server has refused a command.
[[nodiscard]] bool create_commands(RedisModuleCtx* context, const Settings& settings);

// Each family, with its commands for replicas and the AOF. Called once, by create_commands().
[[nodiscard]] std::span<const Command> bloom_commands(const Settings& settings);
[[nodiscard]] std::span<const Command> cuckoo_commands(const Settings& settings);

}  // namespace sepal::module
