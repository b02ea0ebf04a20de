#include "command/keys/missing.hpp"

#include <algorithm>

#include "command/keys/lookup.hpp"
#include "command/run/refuse.hpp"

namespace sepal::command {

bool answer_missing(Context& context, const value::Value* found, std::span<bool> present,
                    std::uint64_t requests) {
  const bloom::MissingFilter answer = context.services.options.missing_filter;
  if (answer == bloom::MissingFilter::error) return false;
  count_key(context, found != nullptr, requests);
  context.stats.items_asked.add(present.size());
  std::ranges::fill(present, answer == bloom::MissingFilter::present);
  return true;
}

Next refuse_missing(Context& context) {
  return refuse_missing(context, find(context, context.words[1]));
}

Next refuse_missing(Context& context, const value::Value* found) {
  count_key(context, found != nullptr);
  return refuse(context, found == nullptr ? text::filter_not_found : text::wrong_type);
}

}  // namespace sepal::command
