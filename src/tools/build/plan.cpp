#include "tools/build/plan.hpp"

#include <sepal/base/checked.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

using bloom::LayerPlan;

constexpr std::array<double, 5> loads = {1, 1.25, 1.5, 2, 3};
constexpr std::uint32_t growths_shown = 6;
constexpr std::size_t rate_bar_characters = 40;

// The rate that a filter is planned for if this rate is asked for.
double kept_rate(const PlanRequest& request) {
  return std::clamp(request.error_rate, bloom::error_rate_min, bloom::error_rate_max);
}

double bits_per_item(const LayerPlan& plan) {
  return static_cast<double>(plan.bit_count()) / static_cast<double>(plan.capacity);
}

Result<LayerPlan> plan_layer_of(const PlanRequest& request, std::uint32_t layer_index,
                                std::uint64_t capacity) {
  const double asked = std::min(request.error_rate, bloom::error_rate_max);
  // A filter that does not scale has one layer, which may have the whole rate (decisions/0001).
  const double share = request.expansion == 0 ? 1 : bloom::layer_rate_share(layer_index);
  return bloom::plan_layer(
      {.capacity = capacity, .error_rate = std::max(asked * share, bloom::error_rate_min)}, filter_bytes_max);
}

void describe(const PlanRequest& request, const LayerPlan& plan, std::vector<std::string>& lines) {
  lines.push_back(format("error rate %g, %llu items, %s", request.error_rate, wide(request.capacity),
                         request.expansion == 0
                             ? "does not scale"
                             : format("a further layer holds %u times the last", request.expansion).c_str()));
  lines.emplace_back();
  lines.push_back("  bitmap            " + bytes_text(plan.byte_count()));
  const double textbook = bloom::textbook_bits_per_item(kept_rate(request));
  lines.push_back(
      format("  bits an item      %.3f (the textbook's optimum: %.3f)", bits_per_item(plan), textbook));
  lines.push_back(format("  bits set an item  %u", plan.probe_count));
  lines.push_back(format("  blocks            %llu of %u bytes; an item touches one", wide(plan.block_count),
                         plan.block_bits / 8));
  if (request.expansion != 0)
    lines.push_back(
        format("  first layer       planned for a rate of %.3g, so that all layers together keep %g",
               plan.error_rate, kept_rate(request)));
}

// Two blanks and a bar; empty if the bar would be empty.
std::string rate_bar(double share) {
  const double clamped = std::clamp(share, 0.0, 1.0);
  const auto length = static_cast<std::size_t>(std::lround(clamped * rate_bar_characters));
  return length == 0 ? "" : "  " + std::string(length, '#');
}

// Describes the error rate of a layer with more items than it was planned for.
void describe_overfill(const LayerPlan& plan, std::vector<std::string>& lines) {
  std::array<double, loads.size()> rates{};
  const auto capacity = static_cast<double>(plan.capacity);
  for (std::size_t i = 0; i < loads.size(); ++i)
    rates[i] = bloom::expected_error_rate(plan, static_cast<std::uint64_t>(capacity * loads[i]));
  const double highest = *std::max_element(rates.begin(), rates.end());
  lines.emplace_back();
  lines.emplace_back(
      "One layer with more different items than its capacity is expected to answer \"maybe\" to");
  for (std::size_t i = 0; i < loads.size(); ++i)
    lines.push_back(format("  %4.2f x  %9.3g of absent items%s", loads[i], rates[i],
                           rate_bar(rates[i] / highest).c_str()));
}

void describe_growth(const PlanRequest& request, const LayerPlan& first, std::vector<std::string>& lines) {
  lines.emplace_back();
  lines.emplace_back("As it grows (rate: of all layers, full)");
  lines.emplace_back("  layers            items    bits an item       rate  bitmaps");
  std::uint64_t items = 0;
  std::uint64_t bytes = 0;
  double rate = 0;
  LayerPlan plan = first;
  for (std::uint32_t layer = 0;; ++layer) {
    items += plan.capacity;
    bytes += plan.byte_count();
    // An absent item is answered "maybe" if any layer says so, so each layer adds to what the others left
    // right.
    rate += (1 - rate) * bloom::expected_error_rate(plan, plan.capacity);
    lines.push_back(format("  %6u %16llu  %14.3f  %9.3g  %s", layer + 1, wide(items),
                           8 * static_cast<double>(bytes) / static_cast<double>(items), rate,
                           bytes_text(bytes).c_str()));
    if (layer == growths_shown) return;
    const auto capacity = checked_multiply(plan.capacity, request.expansion);
    const auto next = capacity ? plan_layer_of(request, layer + 1, *capacity) : fail(Errc::too_large);
    if (!next) {
      lines.emplace_back("  A further layer would be larger than any machine's memory.");
      return;
    }
    plan = *next;
  }
}

}  // namespace

Result<void> check_options(const bloom::FilterOptions& options) {
  if (!(options.error_rate > 0 && options.error_rate < 1))
    return fail(Errc::out_of_range, "the error rate must lie between 0 and 1");
  if (options.capacity == 0) return fail(Errc::out_of_range, "the capacity must be at least 1");
  if (options.expansion > bloom::expansion_max)
    return fail(Errc::out_of_range, format("the expansion must be at most %u", bloom::expansion_max));
  return {};
}

Result<LayerPlan> plan_first_layer(const PlanRequest& request) {
  return plan_layer_of(request, 0, request.capacity);
}

Error fits_nowhere() {
  return fail(Errc::too_large, "a filter of this capacity and error rate fits into no machine's memory");
}

Result<std::vector<std::string>> plan_report(const PlanRequest& request) {
  const auto sound = check_options(
      {.error_rate = request.error_rate, .capacity = request.capacity, .expansion = request.expansion});
  if (!sound) return sound.error();
  const auto plan = plan_first_layer(request);
  if (!plan) return fits_nowhere();

  std::vector<std::string> lines;
  describe(request, *plan, lines);
  describe_overfill(*plan, lines);
  if (request.expansion != 0) describe_growth(request, *plan, lines);
  return lines;
}

}  // namespace sepal::tools
