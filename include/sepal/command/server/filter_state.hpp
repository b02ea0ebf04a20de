// How a filter is, in one word: the list that the metrics, the status page and its advice share
// (decisions/0057).
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/server/filter_look.hpp>
#include <sepal/value/value.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>
#include <vector>

namespace sepal::command {

// Worst first. A filter has the worst state that holds for it.
enum class FilterState : std::uint8_t {
  full,           // it refuses new items: it has no room and cannot grow
  overfilled,     // it errs more often than rate_margin times what was asked for
  mirror_broken,  // the target of its mirror could not take an item
  filling,        // it cannot grow, or not much further, and will soon be full
  grown,          // it has more layers than layers_few: look-ups are slow, and nothing is wrong
  fine,
};
inline constexpr std::size_t filter_state_count = static_cast<std::size_t>(FilterState::fine) + 1;

// The rate of a filter is estimated from its bits, and differs a little from filter to filter.
inline constexpr double rate_margin = 1.5;
// A filter is filling from this share of its room on (if it can grow: of the room with all layers),
inline constexpr double filling_share = growth_asked_share;
// or if it will be full so soon, at the rate of the last minute.
inline constexpr double full_soon_seconds = 3600;
inline constexpr std::uint64_t layers_few = 8;

[[nodiscard]] FilterState state_of(const SeenFilter& filter);
// What metrics and page call it: "full", "mirror_broken".
[[nodiscard]] std::string_view name_of_state(FilterState state);
// Whether the operator has something to do.
[[nodiscard]] constexpr bool is_trouble(FilterState state) {
  return state < FilterState::grown;
}

// All filters by state, and by kind.
struct FilterCounts {
  std::array<std::uint64_t, filter_state_count> by_state{};
  std::array<std::uint64_t, std::size(filter_kinds)> by_kind{};  // in the order of filter_kinds

  void count(value::Kind kind, FilterState state);
  [[nodiscard]] std::uint64_t of(FilterState state) const {
    return by_state[static_cast<std::size_t>(state)];
  }
  [[nodiscard]] std::uint64_t of(value::Kind kind) const;
  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] std::uint64_t in_trouble() const;
};

// What the last looks have found.
struct FiltersSeen {
  std::vector<SeenFilter> filters{};      // of all, those that are shown
  FilterCounts counts{};                  // of all
  std::optional<SteadyTime> judged_at{};  // when the last whole look at all filters ended; nothing: none has
};

}  // namespace sepal::command
