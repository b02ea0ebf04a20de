// The refusals of CF commands whose key has no filter that deletes.
#pragma once

#include <sepal/bloom/commands/texts.hpp>
#include <sepal/cuckoo/commands/found.hpp>
#include <sepal/cuckoo/commands/options.hpp>

#include "module/request.hpp"

namespace sepal::module {

// Both answer an error if they return true. The key has a value of another kind:
[[nodiscard]] inline bool refuses_other_than_cuckoo(Request& request, const Key& key) {
  if (key.is_free() || !cuckoo::Found(key.value()).none()) return false;
  request.reply.error(bloom::text::wrong_type);
  return true;
}
// The same, or it is free:
[[nodiscard]] inline bool refuses_no_cuckoo(Request& request, const Key& key) {
  if (key.is_free()) request.reply.error(cuckoo::text::not_found);
  return key.is_free() || refuses_other_than_cuckoo(request, key);
}

}  // namespace sepal::module
