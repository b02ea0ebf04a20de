// Look-ups that tell missing filters, in every host of the commands.
#pragma once

#include <sepal/value/value.hpp>

namespace sepal::bloom {

// A Bloom filter, or one that forgets; not null.
[[nodiscard]] inline bool is_filter(const value::Value* found) {
  return found != nullptr && (found->kind() == value::Kind::bloom || found->kind() == value::Kind::window);
}

}  // namespace sepal::bloom
