#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "plan.hpp"
#include "text.hpp"

namespace sepal::tools {
namespace {

int plan(const PlanRequest& request) {
  const auto report = plan_report(request);
  if (!report) return refuse("plan", report.error().detail);
  for (const std::string& line : *report) std::puts(line.c_str());
  return exit_good;
}

}  // namespace

void add_plan_command(CommandLine& line) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App& command = line.add_command("plan", "Says what a filter takes in memory and what it promises",
                                       [request] { return plan(*request); });
  add_rate(command, "--error", "The error rate, above 0 and below 1", request->error_rate)
      ->default_str(format("%g", request->error_rate));
  add_count(command, "--capacity", "The items of the first layer", [request](std::uint64_t count) {
    request->capacity = count;
  })->default_str(std::to_string(request->capacity));
  add_growth_flags(command, request->expansion);
}

}  // namespace sepal::tools
