// A look at one filter, of whatever kind, for the metrics and the status page. A value that is no filter is
// not seen.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/bloom/commands/filter_facts.hpp>
#include <sepal/bloom/filter/measure.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/bloom/window/window_filter.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/value/value.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sepal::command {

// The kinds of values that are filters.
inline constexpr value::Kind filter_kinds[] = {value::Kind::bloom, value::Kind::cuckoo,
                                               value::Kind::redis_cuckoo, value::Kind::window};

// Longer keys are on no page and in no metric.
inline constexpr std::size_t shown_key_bytes_max = 256;
// Whether a key may be shown. `pattern`: of the operator, as KEYS takes it.
[[nodiscard]] bool is_shown(std::string_view pattern, std::string_view key);

// The mirror of which a filter is an end.
struct SeenMirror {
  bool is_source = false;
  std::optional<std::string> other;  // the key of the other end, as it is; nothing: it is not shown
  keyspace::MirrorState state = keyspace::MirrorState::whole;
  std::uint64_t items = 0;  // new to the source since the mirror began

  [[nodiscard]] bool broken() const { return state != keyspace::MirrorState::whole; }
};

// What keeps a filter from growing.
enum class GrowthLimit : std::uint8_t {
  none,       // it grows when it has to, or has room left (growth_asked_share)
  expansion,  // it was made not to grow
  layers,     // it has as many layers as it may have
  memory,     // its next layer would take more memory than is left
};
// What the page's /api calls it: "expansion", "layers", "memory". Not of `none`.
[[nodiscard]] std::string_view name_of_limit(GrowthLimit limit);
// From this share of its room on, a filter is asked whether it would get the memory of its next layer.
inline constexpr double growth_asked_share = 0.8;

// A filter as it was measured some seconds ago. A value: nothing in it depends on the filter any more. A
// member is nothing where a filter of this kind has no such figure.
struct SeenFilter {
  std::uint32_t database = 0;
  std::string key{};        // valid UTF-8 (metrics::printable)
  std::string key_bytes{};  // as it is
  value::Kind kind = value::Kind::bloom;
  std::uint64_t capacity = 0;  // items
  // The items for which it has room once it has all layers that it may have, whatever memory is left.
  // Nothing: no such number is known, or none bounds it.
  std::optional<double> capacity_max{};
  std::uint64_t item_count = 0;
  std::uint64_t byte_count = 0;  // of memory
  std::uint64_t layer_count = 0;
  std::uint32_t expansion = 0;  // 0: it does not grow
  GrowthLimit growth_limit = GrowthLimit::none;
  bool refuses = false;  // it has no room for another item, and cannot grow
  double fill =
      0;  // the share of its bits that are set, of its slots that are taken, or of its room that items have
  double false_positive_rate = 0;  // now
  std::optional<double> rate_asked{};
  std::optional<double> item_estimate{};         // different items that a Bloom filter was given
  std::optional<std::uint64_t> removed_count{};  // items that were removed from one that deletes
  std::optional<double> seconds_until_full{};
  std::optional<bloom::Usage::Sums> usage{};  // of a big Bloom filter
  keyspace::Deadline deadline = keyspace::no_deadline;
  std::optional<SeenMirror> mirror{};
};

// What metrics and page call a kind of filter: "bloom", "cuckoo", "redisbloom_cuckoo", "window".
[[nodiscard]] std::string_view name_of_filter(value::Kind kind);

// A filter as it was, some time ago.
struct HistoryPoint {
  double age_seconds = 0;
  double fill = 0;
  double false_positive_rate = 0;
};

struct SeenBloomLayer {
  bloom::LayerPlan plan;
  std::uint64_t items = 0;
  bloom::LayerMeasure measured;
};
struct SeenRedisLayer {
  std::uint64_t buckets = 0;
  std::uint64_t slots = 0;
  double fill = 0;
};
struct SeenWindowLayer {
  bloom::WindowFilter::LayerFigures figures;
  std::uint32_t lanes = 0;
};
// Oldest first.
using SeenLayers = std::variant<std::vector<SeenBloomLayer>, std::vector<cuckoo::Filter::LayerFigures>,
                                std::vector<SeenRedisLayer>, std::vector<SeenWindowLayer>>;

// One filter, looked at now. A value, as SeenFilter.
struct FilterDetail {
  SeenFilter seen;
  SeenLayers layers;
  // Of a filter that forgets.
  std::optional<bloom::WindowOptions> window{};
  std::vector<bloom::WindowFilter::Generation> generations{};  // newest first
  std::vector<HistoryPoint> history;  // oldest first; empty if the filter is not watched
};

// The second step of a look at a filter: reads at most about `bytes_max` of its bits, outside the gate.
// Called once. Holds the filter.
using FilterLook = std::function<FilterDetail(std::uint64_t bytes_max)>;
// Shared. The first step. Empty if the key names no filter. Of a filter that deletes or forgets it is the
// whole look: some nanoseconds for each cell, or a sample of the slots.
[[nodiscard]] FilterLook look_at_filter(const keyspace::Keyspace& keyspace, keyspace::DatabaseKey key,
                                        WallTime now, SteadyTime steady_now);

}  // namespace sepal::command
