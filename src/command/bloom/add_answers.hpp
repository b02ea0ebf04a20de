// How adds are answered, to filters of all kinds.
#pragma once

#include <sepal/bloom/commands/texts.hpp>
#include <sepal/bloom/filter/filter.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/partial_run.hpp>
#include <sepal/command/table/error_texts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "command/run/refuse.hpp"
#include "command/run/scratch.hpp"

namespace sepal::command {

enum class AddShape : std::uint8_t { single, array };

inline void append_added(resp::Reply& reply, AddShape shape, std::span<const bool> added) {
  if (shape == AddShape::single) return reply.boolean(added.front());
  reply.array(added.size());
  reply.booleans(added);
}

[[nodiscard]] inline RefusedAdd refused_for(bloom::Filter::Refusal refusal) {
  switch (refusal) {
    case bloom::Filter::Refusal::full: return RefusedAdd::full;
    case bloom::Filter::Refusal::layer_limit: return RefusedAdd::layers;
    default: return RefusedAdd::memory;
  }
}

// `in_target`: the target of the filter's mirror has the item. A client must not take it for refused there,
// too.
inline void append_outcome(Context& context, std::uint32_t layer_count,
                           const bloom::Filter::AddOutcome& outcome, bool in_target) {
  resp::Reply& reply = context.reply;
  if (outcome.refusal == bloom::Filter::Refusal::none) return reply.boolean(outcome.added);
  count_refused(context.stats, in_target ? RefusedAdd::mirrored : refused_for(outcome.refusal));
  std::string text = bloom::text_of(outcome.refusal, layer_count);
  if (in_target) text += text::but_in_target;
  reply.error(text);
}

// The target of the filter's mirror has the first `mirrored_count` items.
inline void append_outcomes(Context& context, std::uint32_t layer_count, AddShape shape,
                            std::size_t mirrored_count) {
  const std::vector<bloom::Filter::AddOutcome>& outcomes = context.scratch.outcomes;
  if (shape == AddShape::array) context.reply.array(outcomes.size());
  for (std::size_t at = 0; at < outcomes.size(); ++at)
    append_outcome(context, layer_count, outcomes[at], at < mirrored_count);
  // Where no target takes it, the item for which the filter is full is the last that gets an answer.
  const bool ends =
      outcomes.size() > mirrored_count && outcomes.back().refusal == bloom::Filter::Refusal::full;
  if (ends && context.partial != nullptr) context.partial->end();
}

[[nodiscard]] inline std::uint64_t new_items(std::span<const bloom::Filter::AddOutcome> outcomes) {
  return static_cast<std::uint64_t>(std::ranges::count(outcomes, true, &bloom::Filter::AddOutcome::added));
}

}  // namespace sepal::command
