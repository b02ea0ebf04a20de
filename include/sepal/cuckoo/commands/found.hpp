// What a CF command finds under its key, in every host of the commands: a filter of Sepal's own, or one of
// RedisBloom; and how it adds to a filter of RedisBloom.
#pragma once

#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/value/value.hpp>

#include <cstdint>

namespace sepal::cuckoo {

// At most one of the two.
struct Found {
  Filter* own = nullptr;
  RedisFilter* of_redis = nullptr;

  explicit Found(value::Value* found)
      : own(value::as<Filter>(found)), of_redis(value::as<RedisFilter>(found)) {}
  [[nodiscard]] bool none() const { return own == nullptr && of_redis == nullptr; }
};

// No filter of RedisBloom gets more layers by adds, if nothing else is set: "Maximum expansions reached".
inline constexpr std::uint32_t redis_added_layers_max = 32;

// Adds an item of this hash to a filter of RedisBloom. An outcome that is neither added nor refused: the item
// seems to be there.
[[nodiscard]] Filter::AddOutcome add_to(RedisTable& table, std::uint64_t hash, Filter::AddIf condition,
                                        std::uint64_t bytes_max,
                                        std::uint32_t layers_max = redis_added_layers_max);

}  // namespace sepal::cuckoo
