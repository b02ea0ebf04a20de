#include "module/commands.hpp"

#include <sepal/base/arguments.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include "module/description.hpp"

namespace sepal::module {
namespace {

std::string flags_of(const CommandFacts& facts) {
  std::string flags = facts.writes ? "write" : "readonly";
  if (facts.writes && facts.grows) flags += " deny-oom";
  if (facts.fast) flags += " fast";
  if (facts.key_count_at != 0) flags += " getkeys-api";
  return flags;
}

// Most commands have one key, the word behind their name. Others tell the server which words are keys.
bool create(RedisModuleCtx* context, std::span<const Command> family) {
  return std::ranges::all_of(family, [&](const Command& command) {
    const CommandFacts& facts = command.facts;
    const int key = facts.key_count_at == 0 ? 1 : 0;
    return api.CreateCommand(context, facts.name.data(), command.function, flags_of(facts).c_str(), key, key,
                             key) == status_ok &&
           describe(context, facts);
  });
}

}  // namespace

void tell_keys(RedisModuleCtx* context, std::span<RedisModuleString* const> arguments, int key_count_at) {
  const auto count_at = static_cast<std::size_t>(key_count_at);
  if (arguments.size() <= count_at) return;
  std::size_t length = 0;
  const char* const word = api.StringPtrLen(arguments[count_at], &length);
  const auto count = parse_integer({word, length});
  if (!count || *count < 1 || static_cast<std::uint64_t>(*count) >= arguments.size() - count_at) return;
  for (int key = 1; key <= *count; ++key) api.KeyAtPos(context, key_count_at + key);
}

bool create_commands(RedisModuleCtx* context, const Settings& settings) {
  // The categories come before the commands that name them.
  return create_categories(context) && create(context, bloom_commands(settings)) &&
         create(context, cuckoo_commands(settings));
}

}  // namespace sepal::module
