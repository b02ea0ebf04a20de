#include "tools/build/plan_window.hpp"

#include <sepal/base/arguments.hpp>
#include <sepal/base/checked.hpp>
#include <sepal/bloom/filter/filter.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/build/plan.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

using bloom::LanePlan;
using bloom::WindowOptions;

constexpr std::uint32_t layers_shown = 3;
constexpr std::array<std::uint32_t, 5> generations_shown = {1, 2, 4, 8, 16};
constexpr double milliseconds_a_second = 1000;

double bits_per_item(std::uint64_t bytes, std::uint64_t items) {
  return 8 * static_cast<double>(bytes) / static_cast<double>(items);
}

std::uint64_t bytes_of(const WindowOptions& options, const LanePlan& plan) {
  return plan.byte_count(options.lanes());
}

// The most that is kept: a window and a generation.
std::string kept_at_most(const WindowOptions& options) {
  if (options.of_last()) return format("%llu items", wide(options.lanes() * options.generation_items()));
  return time_text(options.milliseconds + options.milliseconds / options.generations);
}

std::string reserve_line(const WindowOptions& options) {
  std::string line =
      format("BF.RESERVE key %s %llu", digits_of_real(options.error_rate).c_str(), wide(options.capacity));
  if (options.of_last())
    line += " LAST";
  else if (options.expansion == 0)
    line += " NONSCALING";
  else if (options.expansion != PlanRequest{}.expansion)
    line += format(" EXPANSION %u", options.expansion);
  if (!options.of_last())
    line += " WINDOW " + digits_of_real(static_cast<double>(options.milliseconds) / milliseconds_a_second);
  if (options.generations != bloom::window_generations_default)
    line += format(" GENERATIONS %u", options.generations);
  return line;
}

void describe(const WindowOptions& options, const LanePlan& plan, std::vector<std::string>& lines) {
  const std::string window = options.of_last() ? format("the last %llu items", wide(options.capacity))
                                               : format("%llu items in %s", wide(options.capacity),
                                                        time_text(options.milliseconds).c_str());
  lines.push_back(
      format("error rate %g, %s, %u generations", options.error_rate, window.c_str(), options.generations));
  lines.emplace_back();
  lines.push_back("  memory            " + bytes_text(bytes_of(options, plan)));
  lines.push_back(format("  bits an item      %.3f, of a window's items",
                         bits_per_item(bytes_of(options, plan), options.capacity)));
  lines.push_back(format("  bits set an item  %u, in %u lines of %u bytes",
                         std::uint32_t{plan.zones} * plan.probes, plan.zones, bloom::lane_line_bytes));
  lines.push_back("  kept at least     " + (options.of_last() ? format("%llu items", wide(options.capacity))
                                                              : time_text(options.milliseconds)));
  lines.push_back("  kept at most      " + kept_at_most(options));
  lines.push_back("  to create it      " + reserve_line(options));
}

void describe_generations(const WindowOptions& options, std::vector<std::string>& lines) {
  lines.emplace_back();
  lines.emplace_back("More generations forget more exactly");
  lines.emplace_back("  generations    bits an item  kept at most");
  for (const std::uint32_t generations : generations_shown) {
    WindowOptions other = options;
    other.generations = generations;
    if (const auto plan = bloom::plan_window(other, filter_bytes_max))
      lines.push_back(format("  %11u  %14.3f  %s", generations,
                             bits_per_item(bytes_of(other, *plan), other.capacity),
                             kept_at_most(other).c_str()));
  }
}

// For each number of generations that go by, the rates of the lanes that are live then, if all are full now.
std::vector<double> rates_by_age(const WindowOptions& options, const LanePlan& plan) {
  std::vector<double> rates;
  for (std::uint32_t live = options.lanes(); live > 0; --live) rates.push_back(live * plan.error_rate);
  return rates;
}

// Traffic that rises in steps, and stays as high for a window each time: the layer before is gone by then.
void describe_growth(const WindowOptions& options, const LanePlan& first, std::vector<std::string>& lines) {
  lines.emplace_back();
  lines.push_back(
      format("A generation with more than %llu items gets a further layer. The one before it goes",
             wide(first.capacity)));
  lines.push_back(
      format("when its last generation is over: after %s.",
             time_text(options.milliseconds + options.milliseconds / options.generations).c_str()));
  lines.emplace_back("  layer    items of a window    bits an item  memory with the layer before");
  LanePlan plan = first;
  for (std::uint32_t layer = 2; layer <= layers_shown + 1; ++layer) {
    const auto items = checked_multiply(plan.capacity, options.expansion);
    const auto window = items ? checked_multiply(*items, options.generations) : std::nullopt;
    const auto next = window
                          ? bloom::plan_growth(options, *items, rates_by_age(options, plan), filter_bytes_max)
                          : Result<LanePlan>(fail(Errc::too_large));
    if (!next) {
      lines.emplace_back("  A further layer would be larger than any machine's memory.");
      return;
    }
    const std::uint64_t bytes = bytes_of(options, *next);
    lines.push_back(format("  %6u  %18llu  %14.3f  %s", layer, wide(*window), bits_per_item(bytes, *window),
                           bytes_text(bytes + bytes_of(options, plan)).c_str()));
    plan = *next;
  }
}

std::string unit_text(std::uint64_t count, const char* unit) {
  return format("%llu %s%s", wide(count), unit, count == 1 ? "" : "s");
}

}  // namespace

Result<std::uint64_t> items_of_window(const Pace& pace, std::uint64_t milliseconds) {
  const auto product = checked_multiply(pace.count, milliseconds);
  if (!product) return fits_nowhere();
  return (*product - 1) / pace.milliseconds + 1;
}

std::string time_text(std::uint64_t milliseconds) {
  constexpr std::uint64_t minute = 60'000;
  constexpr std::uint64_t hour = 60 * minute;
  constexpr std::uint64_t day = 24 * hour;
  std::string text;
  const auto append = [&text](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  for (const auto& [length, name] :
       {std::pair(day, "day"), std::pair(hour, "hour"), std::pair(minute, "minute")}) {
    if (milliseconds >= length) append(unit_text(milliseconds / length, name));
    milliseconds %= length;
  }
  constexpr std::uint64_t second = 1000;
  if (milliseconds % second != 0)
    append(digits_of_real(static_cast<double>(milliseconds) / milliseconds_a_second) + " seconds");
  else if (milliseconds != 0)
    append(unit_text(milliseconds / second, "second"));
  return text;
}

Result<std::vector<std::string>> window_report(const WindowOptions& options) {
  if (const auto sound = bloom::check(options); !sound) return sound.error();
  const auto plan = bloom::plan_window(options, filter_bytes_max);
  if (!plan) return fits_nowhere();
  std::vector<std::string> lines;
  describe(options, *plan, lines);
  describe_generations(options, lines);
  if (!options.of_last() && options.expansion != 0) describe_growth(options, *plan, lines);
  return lines;
}

}  // namespace sepal::tools
