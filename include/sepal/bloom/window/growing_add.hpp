// Adds to a filter that forgets, and lets it grow: in every host of the commands.
#pragma once

#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/value/add_recorder.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace sepal::bloom {

// Exclusive. Item after item: one that finds no room is tried again behind a growth. `outcomes` gets one
// outcome for each item that was tried: where the filter is full, that item is the last. A filter that was
// refused a growth is not asked for another. `teller` has
//
//     limits()                 what the filter may take; asked before each growth
//     items(entries)           these were added
//     grown(generation, plan)  the filter is about to get this layer; nothing can fail any more
template <class Teller>
void add_with_growth(WindowFilter& filter, std::span<const std::string_view> items, WallTime now,
                     Teller& teller, std::vector<WindowFilter::AddOutcome>& outcomes) {
  using Refusal = WindowFilter::Refusal;
  outcomes.clear();
  value::CollectedEntries collected;
  while (outcomes.size() < items.size()) {
    collected.entries.clear();
    (void)filter.add_each(items.subspan(outcomes.size()), now, Refusal::full, outcomes, &collected);
    teller.items(std::span<const Fingerprint>(collected.entries));
    if (outcomes.back().refusal != Refusal::full) return;
    Refusal refusal = filter.refusal();
    if (filter.may_grow(now))
      refusal = filter.grow(now, teller.limits(), [&](std::uint64_t generation, const LanePlan& plan) {
        teller.grown(generation, plan);
      });
    if (refusal == Refusal::full) return;
    outcomes.pop_back();
    // Other refusals are of this item: a later one may be known already.
    if (refusal != Refusal::none) outcomes.push_back({.refusal = refusal});
  }
}

}  // namespace sepal::bloom
