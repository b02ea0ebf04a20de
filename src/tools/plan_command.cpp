#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "plan.hpp"

namespace sepal::tools {
namespace {

int plan(const PlanRequest& request) {
  const auto report = plan_report(request);
  if (!report) return refuse("plan", report.error().detail);
  for (const std::string& line : *report) std::puts(line.c_str());
  return exit_good;
}

}  // namespace

void add_plan_command(CLI::App& tools, int& exit_status) {
  CLI::App& command =
      *tools.add_subcommand("plan", "Says what a filter takes in memory and what it promises");
  const auto request = std::make_shared<PlanRequest>();
  command.add_option("--error", request->error_rate, "The error rate, between 0 and 1")
      ->capture_default_str();
  command.add_option("--capacity", request->capacity, "The items of the first layer")
      ->capture_default_str()
      ->check(refuse_sign);
  add_growth_options(command, request->expansion);
  command.callback([request, &exit_status] { exit_status = plan(*request); });
}

}  // namespace sepal::tools
