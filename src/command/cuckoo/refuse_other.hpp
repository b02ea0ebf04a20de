// The refusal of a key that has a value of another kind.
#pragma once

#include <sepal/cuckoo/commands/found.hpp>

#include "command/keys/lookup.hpp"

namespace sepal::command {

// Answers WRONGTYPE, and returns true, if a value is no filter that deletes.
[[nodiscard]] inline bool refuses_other_than_cuckoo(Context& context, value::Value* found) {
  if (found == nullptr || !cuckoo::Found(found).none()) return false;
  answer_other_kind(context.reply);
  return true;
}

}  // namespace sepal::command
