#include "module/commands.hpp"

#include <algorithm>
#include <string>

#include "module/description.hpp"

namespace sepal::module {
namespace {

std::string flags_of(const CommandFacts& facts) {
  std::string flags = facts.writes ? "write" : "readonly";
  if (facts.writes && facts.grows) flags += " deny-oom";
  if (facts.fast) flags += " fast";
  return flags;
}

// Each command has one key, the word behind its name.
bool create(RedisModuleCtx* context, std::span<const Command> family) {
  return std::ranges::all_of(family, [&](const Command& command) {
    const CommandFacts& facts = command.facts;
    return api.CreateCommand(context, facts.name.data(), command.function, flags_of(facts).c_str(), 1, 1,
                             1) == status_ok &&
           describe(context, facts);
  });
}

}  // namespace

bool create_commands(RedisModuleCtx* context, const Settings& settings) {
  // The categories come before the commands that name them.
  return create_categories(context) && create(context, bloom_commands(settings)) &&
         create(context, cuckoo_commands(settings));
}

}  // namespace sepal::module
