#include <sepal/base/assert.hpp>
#include <sepal/command/server/filter_state.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace sepal::command {
namespace {

// Only filters that hold what was added for good: a filter that forgets makes room by itself.
bool is_filling(const SeenFilter& filter) {
  if (filter.kind == value::Kind::window) return false;
  const auto items = static_cast<double>(filter.item_count);
  // One that still grows, but not for long.
  if (filter.capacity_max && items >= filling_share * *filter.capacity_max) return true;
  if (filter.growth_limit == GrowthLimit::none) return false;
  if (items >= filling_share * static_cast<double>(filter.capacity)) return true;
  return filter.seconds_until_full && *filter.seconds_until_full < full_soon_seconds;
}

std::size_t index_of(value::Kind kind) {
  const auto* const at = std::ranges::find(filter_kinds, kind);
  SEPAL_ASSERT(at != std::end(filter_kinds), "a value that is no filter is counted");
  return static_cast<std::size_t>(at - filter_kinds);
}

}  // namespace

FilterState state_of(const SeenFilter& filter) {
  if (filter.refuses) return FilterState::full;
  // A filter that deletes never errs more than was asked for, and one of RedisBloom was asked for no rate.
  if (filter.rate_asked && filter.false_positive_rate > rate_margin * *filter.rate_asked)
    return FilterState::overfilled;
  if (filter.mirror && filter.mirror->is_source && filter.mirror->broken()) return FilterState::mirror_broken;
  if (is_filling(filter)) return FilterState::filling;
  return filter.layer_count > layers_few ? FilterState::grown : FilterState::fine;
}

std::string_view name_of_state(FilterState state) {
  switch (state) {
    case FilterState::full: return "full";
    case FilterState::overfilled: return "overfilled";
    case FilterState::mirror_broken: return "mirror_broken";
    case FilterState::filling: return "filling";
    case FilterState::grown: return "grown";
    case FilterState::fine: return "fine";
  }
  SEPAL_ASSERT(false, "a state that is none");
  return "";
}

void FilterCounts::count(value::Kind kind, FilterState state) {
  ++by_state[static_cast<std::size_t>(state)];
  ++by_kind[index_of(kind)];
}

std::uint64_t FilterCounts::of(value::Kind kind) const {
  return by_kind[index_of(kind)];
}

std::uint64_t FilterCounts::total() const {
  return std::accumulate(by_state.begin(), by_state.end(), std::uint64_t{0});
}

std::uint64_t FilterCounts::in_trouble() const {
  return total() - of(FilterState::grown) - of(FilterState::fine);
}

}  // namespace sepal::command
