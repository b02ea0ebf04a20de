#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/plan/layer_plan.hpp>
#include <sepal/bloom/window/plan.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "bloom/plan/layer_rate.hpp"
#include "bloom/plan/probe.hpp"

namespace sepal::bloom {
namespace {

// What the first layer leaves of the rate for those that come in its window.
constexpr double first_share = 0.93;
// Another zone costs look-ups another line. So fewer are taken where that costs little memory.
constexpr double fewer_zones_share = 1.035;
constexpr std::uint64_t blocks_a_stripe = 32;
constexpr std::uint32_t stripes_max = 64;

// So that the blocks of all stripes are equally many.
std::uint64_t whole_stripes(std::uint64_t block_count) {
  const std::uint64_t stripes =
      std::clamp<std::uint64_t>(std::bit_floor(block_count / blocks_a_stripe), 1, stripes_max);
  return (block_count + stripes - 1) / stripes * stripes;
}

// The bits of a lane in a line.
std::uint32_t lane_bits_of(std::uint32_t lanes) {
  return word_bits / lanes * lane_line_words;
}

// With so many zones. Nothing where it would be too large.
std::optional<LanePlan> plan_zones(const LayerRequest& request, std::uint32_t lanes, std::uint32_t zones,
                                   std::uint64_t bytes_max) {
  const std::uint32_t lane_bits = lane_bits_of(lanes);
  const auto zone =
      plan_layer_of({.capacity = request.capacity, .error_rate = std::pow(request.error_rate, 1.0 / zones)},
                    lane_bits, std::min(zone_probes_max, probe_count_max / zones), bytes_max);
  if (!zone) return std::nullopt;
  const std::uint64_t lines_max = block_lines_max / zones;
  LanePlan plan{.capacity = request.capacity,
                .error_rate = request.error_rate,
                .block_count = whole_stripes((zone->block_count + lines_max - 1) / lines_max),
                .zones = static_cast<std::uint16_t>(zones),
                .probes = static_cast<std::uint16_t>(zone->probe_count)};
  plan.zone_lines = static_cast<std::uint32_t>((zone->block_count + plan.block_count - 1) / plan.block_count);
  if (plan.block_count > bytes_max / (block_lines_max * lane_line_bytes) + 1) return std::nullopt;
  if (plan.byte_count(lanes) > bytes_max) return std::nullopt;
  return plan;
}

std::optional<LanePlan> smallest(const LayerRequest& request, std::uint32_t lanes, std::uint64_t bytes_max) {
  std::array<std::optional<LanePlan>, zones_max> plans;
  double least = std::numeric_limits<double>::infinity();
  const auto size = [&](const LanePlan& plan) { return static_cast<double>(plan.byte_count(lanes)); };
  for (std::uint32_t zones = 1; zones <= zones_max; ++zones)
    if (const auto plan = plan_zones(request, lanes, zones, bytes_max)) {
      plans[zones - 1] = plan;
      least = std::min(least, size(*plan));
    }
  for (const auto& plan : plans)
    if (plan && size(*plan) <= fewer_zones_share * least) return plan;
  return std::nullopt;
}

// Many filters are made with the options of the one before, and a request that has planned a growth may run
// again with the gate closed. So each thread keeps its last plan.
struct PlannedLast {
  LayerRequest request;
  std::uint32_t lanes = 0;
  LanePlan plan;
};
thread_local std::optional<PlannedLast> planned_last;

Result<LanePlan> plan_smallest(const LayerRequest& request, std::uint32_t lanes, std::uint64_t bytes_max) {
  if (!planned_last || planned_last->request != request || planned_last->lanes != lanes) {
    // The plan is the same whatever the limit is.
    constexpr std::uint64_t bytes_of_all = std::uint64_t{1} << 59;
    const auto plan = smallest(request, lanes, bytes_of_all);
    if (!plan) return fail(Errc::too_large, "the filter would exceed any memory");
    planned_last.emplace(PlannedLast{.request = request, .lanes = lanes, .plan = *plan});
  }
  if (planned_last->plan.byte_count(lanes) > bytes_max)
    return fail(Errc::too_large, "the filter would exceed the memory it may take");
  return planned_last->plan;
}

}  // namespace

std::uint32_t LanePlan::stripe_count() const {
  return std::uint32_t{1} << std::min(std::countr_zero(block_count), std::countr_zero(stripes_max));
}

Result<void> check(const WindowOptions& options) {
  if (options.generations < 1 || options.generations > window_generations_max)
    return fail(Errc::out_of_range, "the generations of a window are 1 to 16");
  if (options.capacity == 0) return fail(Errc::out_of_range, "the capacity is at least 1");
  if (!(options.error_rate > 0 && options.error_rate < 1))
    return fail(Errc::out_of_range, "the error rate lies between 0 and 1");
  if (options.expansion > expansion_max) return fail(Errc::out_of_range, "the expansion is too large");
  if (options.of_last()) {
    if (options.capacity < options.generations)
      return fail(Errc::out_of_range, "a generation has at least one item");
    return {};
  }
  if (options.milliseconds > window_milliseconds_max)
    return fail(Errc::out_of_range, "a window has at most ten thousand years");
  if (options.milliseconds < options.generations * generation_milliseconds_min)
    return fail(Errc::out_of_range, "a generation has at least a tenth of a second");
  return {};
}

Result<LanePlan> plan_window(const WindowOptions& options, std::uint64_t bytes_max) {
  if (auto checked = check(options); !checked) return checked.error();
  const double asked = std::clamp(options.error_rate, error_rate_min, error_rate_max);
  const double share = options.of_last() || options.expansion == 0 ? 1 : first_share;
  return plan_smallest(
      {.capacity = options.generation_items(), .error_rate = share * asked / options.lanes()},
      options.lanes(), bytes_max);
}

Result<LanePlan> plan_growth(const WindowOptions& options, std::uint64_t generation_items,
                             std::span<const double> ages, std::uint64_t bytes_max) {
  const double asked = std::clamp(options.error_rate, error_rate_min, error_rate_max);
  double rate = first_share * asked / options.lanes();
  for (std::size_t age = 0; age < ages.size(); ++age) {
    const double left = std::max(0.0, asked - ages[age]);
    rate = std::min(rate, left / static_cast<double>(age + 1) / 2);
  }
  return plan_smallest({.capacity = generation_items, .error_rate = std::max(rate, error_rate_min)},
                       options.lanes(), bytes_max);
}

bool is_possible(const LanePlan& plan, std::uint32_t lanes) {
  constexpr std::uint64_t bytes_max = std::uint64_t{1} << 59;
  const bool zones = plan.zones >= 1 && plan.zones <= zones_max && plan.zone_lines >= 1 &&
                     plan.zone_lines <= block_lines_max / plan.zones;
  return plan.capacity > 0 && plan.error_rate > 0 && plan.error_rate < 1 && zones && plan.probes >= 1 &&
         plan.probes <= zone_probes_max && std::uint32_t{plan.zones} * plan.probes <= probe_count_max &&
         plan.block_count > 0 && plan.block_count <= bytes_max / (block_lines_max * lane_line_bytes) &&
         lanes <= window_generations_max + 1;
}

double lane_rate(const LanePlan& plan, std::uint32_t lanes, std::uint64_t item_count) {
  const double of_zone = layer_rate({.block_count = static_cast<double>(plan.block_count * plan.zone_lines),
                                     .block_bits = static_cast<double>(lane_bits_of(lanes)),
                                     .probe_count = plan.probes},
                                    static_cast<double>(item_count))
                             .mean;
  return std::pow(of_zone, plan.zones);
}

}  // namespace sepal::bloom
