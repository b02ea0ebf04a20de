#include <sepal/cuckoo/commands/found.hpp>

namespace sepal::cuckoo {

Filter::AddOutcome add_to(RedisTable& table, std::uint64_t hash, Filter::AddIf condition,
                          std::uint64_t bytes_max, std::uint32_t layers_max) {
  const value::Limits limits{.bytes_max = bytes_max, .layers_max = layers_max};
  const bool always = condition == Filter::AddIf::always;
  switch (always ? table.add(hash, limits) : table.add_new(hash, limits)) {
    case RedisTable::Added::added: return {.added = true};
    case RedisTable::Added::exists: return {};
    case RedisTable::Added::full:
    case RedisTable::Added::layer_limit: return {.refusal = Refusal::full};
    case RedisTable::Added::too_large:
    case RedisTable::Added::out_of_memory: break;
  }
  return {.refusal = Refusal::no_memory};
}

}  // namespace sepal::cuckoo
