// sepal: tools that need no running server.
#include <string>

#include "commands.hpp"

int main(int argc, char** argv) {
  using namespace sepal::tools;
  CLI::App tools("Tools for Sepal that need no running server");
  tools.set_version_flag("--version", std::string("sepal ") + SEPAL_VERSION);
  tools.require_subcommand(1);
  int exit_status = exit_good;
  add_plan_command(tools, exit_status);
  add_build_command(tools, exit_status);
  add_merge_command(tools, exit_status);
  add_verify_command(tools, exit_status);
  add_inspect_command(tools, exit_status);
  add_salvage_command(tools, exit_status);
  try {
    tools.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and the version come this way, too.
    return tools.exit(error) == 0 ? exit_good : exit_usage;
  }
  return exit_status;
}
