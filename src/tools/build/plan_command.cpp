#include <cstdio>
#include <memory>

#include "tools/build/plan.hpp"
#include "tools/build/plan_nodes.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

struct PlanArguments {
  PlanRequest request;
  bool over_nodes = false;
};

int plan(const PlanArguments& arguments) {
  const auto report = arguments.over_nodes ? nodes_report(arguments.request) : plan_report(arguments.request);
  if (!report) return refuse("plan", report.error().detail);
  for (const std::string& line : *report) std::puts(line.c_str());
  return exit_good;
}

}  // namespace

void add_plan_command(CommandLine& line) {
  const auto arguments = std::make_shared<PlanArguments>();
  CLI::App& command = line.add_command("plan", "Says what a filter takes in memory and what it promises",
                                       [arguments] { return plan(*arguments); });
  add_rate(command, "--error", "The error rate, above 0 and below 1", arguments->request.error_rate)
      ->default_str(format("%g", arguments->request.error_rate));
  add_count(command, "--capacity", "The items of the first layer", [arguments](std::uint64_t count) {
    arguments->request.capacity = count;
  })->default_str(std::to_string(arguments->request.capacity));
  add_growth_flags(command, arguments->request.expansion);
  command.add_flag("--nodes", arguments->over_nodes,
                   "Divide it over the nodes of a cluster; say how much memory each machine needs");
}

}  // namespace sepal::tools
