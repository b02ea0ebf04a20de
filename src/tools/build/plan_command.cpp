#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "tools/build/plan.hpp"
#include "tools/build/plan_nodes.hpp"
#include "tools/build/plan_window.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

struct PlanArguments {
  PlanRequest request;
  bool over_nodes = false;
  std::optional<std::uint64_t> window_milliseconds;
  std::optional<Pace> pace;
  std::optional<std::uint64_t> last;
  std::uint32_t generations = bloom::window_generations_default;
  const CLI::App* command = nullptr;

  [[nodiscard]] bool has(const char* flag) const { return command->count(flag) != 0; }
  [[nodiscard]] bool forgets() const { return window_milliseconds || last; }
};

// The flag that does not fit the others, in a sentence; empty if all fit.
std::string misfit(const PlanArguments& given) {
  if (!given.forgets() && given.pace) return "--rate needs --window";
  if (!given.forgets() && given.has("--generations")) return "--generations needs --window or --last";
  if (!given.forgets()) return "";
  if (given.over_nodes) return "--nodes does not divide a filter that forgets";
  if (given.pace && given.has("--capacity"))
    return "--rate and --capacity exclude each other: both say how many items a window has";
  if (!given.last)
    return given.pace || given.has("--capacity")
               ? ""
               : "--window needs --rate, as in 20000/s, or --capacity, the different items of a window";
  if (given.window_milliseconds) return "--window and --last exclude each other";
  if (given.pace || given.has("--capacity"))
    return format("--last and %s exclude each other: the last items are all that it keeps",
                  given.pace ? "--rate" : "--capacity");
  if (given.has("--expansion") || given.has("--nonscaling"))
    return format("--last and %s exclude each other: such a filter does not grow, and is never full",
                  given.has("--expansion") ? "--expansion" : "--nonscaling");
  return "";
}

Result<std::vector<std::string>> report_of_window(const PlanArguments& given) {
  std::uint64_t items = given.last ? *given.last : given.request.capacity;
  if (given.pace) {
    const auto of_pace = items_of_window(*given.pace, *given.window_milliseconds);
    if (!of_pace) return of_pace.error();
    items = *of_pace;
  }
  return window_report({.error_rate = given.request.error_rate,
                        .capacity = items,
                        .expansion = given.last ? 0 : given.request.expansion,
                        .milliseconds = given.window_milliseconds.value_or(0),
                        .generations = given.generations});
}

int plan(const PlanArguments& arguments) {
  if (const std::string wrong = misfit(arguments); !wrong.empty()) return refuse_usage("plan", wrong);
  const auto report = arguments.forgets()    ? report_of_window(arguments)
                      : arguments.over_nodes ? nodes_report(arguments.request)
                                             : plan_report(arguments.request);
  if (!report) return refuse("plan", report.error().detail);
  for (const std::string& line : *report) std::puts(line.c_str());
  return exit_good;
}

void add_window_flags(CLI::App& command, const std::shared_ptr<PlanArguments>& arguments) {
  add_duration(command, "--window", "The filter forgets items after this time, as in 90s, 15m, 1h or 7d",
               [arguments](std::uint64_t time) { arguments->window_milliseconds = time; });
  add_pace(command, "--rate", "With --window: the different items that come in a time, as in 20000/s",
           [arguments](Pace pace) { arguments->pace = pace; });
  add_count(command, "--last", "The filter keeps this many items, and forgets older ones",
            [arguments](std::uint64_t count) { arguments->last = count; });
  add_number(
      command, "--generations", "With --window or --last: it forgets in so many steps",
      {.lowest = 1, .highest = bloom::window_generations_max},
      [arguments](std::uint64_t number) { arguments->generations = static_cast<std::uint32_t>(number); })
      ->default_str(std::to_string(arguments->generations));
}

}  // namespace

void add_plan_command(CommandLine& line) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App& command = line.add_command("plan", "Says what a filter takes in memory and what it promises",
                                       [arguments] { return plan(*arguments); });
  arguments->command = &command;
  add_rate(command, "--error", "The error rate, above 0 and below 1", arguments->request.error_rate)
      ->default_str(format("%g", arguments->request.error_rate));
  add_count(command, "--capacity", "The items of the first layer; with --window, of a window",
            [arguments](std::uint64_t count) { arguments->request.capacity = count; })
      ->default_str(std::to_string(arguments->request.capacity));
  add_growth_flags(command, arguments->request.expansion);
  add_window_flags(command, arguments);
  command.add_flag("--nodes", arguments->over_nodes,
                   "Divide it over the nodes of a cluster; say how much memory each machine needs");
}

}  // namespace sepal::tools
