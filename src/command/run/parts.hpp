// Long requests, which the dispatcher cuts into parts (partial_run.hpp).
#pragma once

#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>

namespace sepal::command {

static_assert(part_items_max > 0 && part_bytes_max > 0 && part_items_max <= whole_items_max);

// Whether the dispatcher cuts the request.
inline bool is_cut(const Request& request) {
  // Every request is asked, and nearly all are short: the test that ends here comes first.
  if (request.words.size() <= whole_items_max && request.byte_count <= whole_bytes_max) return false;
  if (request.spec == nullptr || request.spec->items_at == nullptr) return false;
  const std::size_t items_at = request.spec->items_at(request.words);
  // A wrong request runs whole: its handler has the error.
  if (items_at == 0 || items_at >= request.words.size()) return false;
  // Only items can be cut off. Words in front of them do not count.
  return request.words.size() - items_at > whole_items_max || request.byte_count > whole_bytes_max;
}

// Whether a part of the request has run. If the dispatcher cuts the request, `partial` is there before the
// first part, and that part may still be put off: `next_word` tells. Otherwise a handler makes `partial` when
// it has run a part.
inline bool has_begun(const Request& request) {
  return request.partial != nullptr && (request.partial->next_word != 0 || !is_cut(request));
}

}  // namespace sepal::command
