// What a CF command finds under its key: a filter of Sepal's own, or one of RedisBloom.
#pragma once

#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>

#include "command/keys/lookup.hpp"

namespace sepal::command {

// At most one of the two.
struct FoundCuckoo {
  cuckoo::Filter* own = nullptr;
  cuckoo::RedisFilter* of_redis = nullptr;

  explicit FoundCuckoo(value::Value* found)
      : own(value::as<cuckoo::Filter>(found)), of_redis(value::as<cuckoo::RedisFilter>(found)) {}
  [[nodiscard]] bool none() const { return own == nullptr && of_redis == nullptr; }
};

// Answers WRONGTYPE, and returns true, if a value is no filter that deletes.
[[nodiscard]] inline bool refuses_other_than_cuckoo(Context& context, value::Value* found) {
  if (found == nullptr || !FoundCuckoo(found).none()) return false;
  answer_other_kind(context.reply);
  return true;
}

}  // namespace sepal::command
