// sepal: tools that need no running server.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>

#include "plan.hpp"

namespace {

constexpr int exit_refused = 1;

int plan(const sepal::tools::PlanRequest& request) {
  const auto report = sepal::tools::plan_report(request);
  if (!report) {
    std::fprintf(stderr, "sepal plan: %s\n", report.error().detail.c_str());
    return exit_refused;
  }
  for (const std::string& line : *report) std::puts(line.c_str());
  return 0;
}

// The library reads a number with a minus sign as a huge one. Says what is wrong, or nothing.
std::string refuse_sign(const std::string& text) {
  return text.starts_with('-') ? "a number below zero" : "";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App tools("Tools for Sepal that need no running server");
  tools.set_version_flag("--version", std::string("sepal ") + SEPAL_VERSION);
  tools.require_subcommand(1);

  sepal::tools::PlanRequest request;
  CLI::App& planning =
      *tools.add_subcommand("plan", "Says what a filter takes in memory and what it promises");
  planning.add_option("--error", request.error_rate, "The error rate, between 0 and 1")
      ->capture_default_str();
  planning.add_option("--capacity", request.capacity, "The items of the first layer")
      ->capture_default_str()
      ->check(refuse_sign);
  CLI::Option* expansion =
      planning.add_option("--expansion", request.expansion, "A new layer holds this many times the last")
          ->capture_default_str()
          ->check(refuse_sign);
  planning
      .add_flag_callback(
          "--nonscaling", [&request] { request.expansion = 0; },
          "The filter refuses what is above its capacity")
      ->excludes(expansion);

  CLI11_PARSE(tools, argc, argv);
  return plan(request);
}
