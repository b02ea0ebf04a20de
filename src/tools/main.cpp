// sepal: tools that need no running server.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>

#include "examine.hpp"
#include "plan.hpp"

namespace {

using namespace sepal::tools;

int plan(const PlanRequest& request) {
  const auto report = plan_report(request);
  if (!report) {
    std::fprintf(stderr, "sepal plan: %s\n", report.error().detail.c_str());
    return exit_refused;
  }
  for (const std::string& line : *report) std::puts(line.c_str());
  return exit_good;
}

// The library reads a number with a minus sign as a huge one. Says what is wrong, or nothing.
std::string refuse_sign(const std::string& text) {
  return text.starts_with('-') ? "a number below zero" : "";
}

void add_plan(CLI::App& tools, PlanRequest& request) {
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
}

void add_verify(CLI::App& tools, VerifyRequest& request) {
  CLI::App& verifying = *tools.add_subcommand(
      "verify", "Checks a data directory without starting or writing; exit status 1 when it is damaged");
  verifying.add_option("DIR", request.directory, "The data directory")->required();
}

void add_inspect(CLI::App& tools, InspectRequest& request) {
  CLI::App& inspecting = *tools.add_subcommand("inspect", "Prints what a file of a data directory holds");
  inspecting
      .add_option("FILE", request.file, "A filter file, MANIFEST, segment of the journal, CURRENT or SEED")
      ->required();
  inspecting.add_flag("--json", request.json, "A line of JSON for each thing");
}

void add_salvage(CLI::App& tools, SalvageRequest& request) {
  CLI::App& salvaging =
      *tools.add_subcommand("salvage", "Saves what is whole of a damaged data directory into a new one");
  salvaging.add_option("DIR", request.directory, "The damaged data directory; nothing is written to it")
      ->required();
  salvaging.add_option("--into", request.into, "The new one")->required();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App tools("Tools for Sepal that need no running server");
  tools.set_version_flag("--version", std::string("sepal ") + SEPAL_VERSION);
  tools.require_subcommand(1);
  PlanRequest planning;
  VerifyRequest verifying;
  InspectRequest inspecting;
  SalvageRequest salvaging;
  add_plan(tools, planning);
  add_verify(tools, verifying);
  add_inspect(tools, inspecting);
  add_salvage(tools, salvaging);

  CLI11_PARSE(tools, argc, argv);
  if (tools.got_subcommand("verify")) return verify(verifying);
  if (tools.got_subcommand("inspect")) return inspect(inspecting);
  if (tools.got_subcommand("salvage")) return salvage(salvaging);
  return plan(planning);
}
