// sepal: the tools beside sepald.
#include <sepal/base/version.hpp>
#include <sepal/log/standard_streams.hpp>

#include "tools/shell/commands.hpp"

// CLI11 throws only if the commands are defined wrongly. Every start would show that.
int main(int argc, char** argv) {
  using namespace sepal::tools;
  // Before a file is open.
  sepal::log::keep_standard_streams();
  CommandLine line("Tools for Sepal. Only migrate, and backup with a server, need running servers",
                   sepal::version_line("sepal"));
  add_plan_command(line);
  add_build_command(line);
  add_merge_command(line);
  add_convert_command(line);
  add_migrate_command(line);
  add_backup_command(line);
  add_restore_command(line);
  add_verify_command(line);
  add_inspect_command(line);
  add_salvage_command(line);
  return line.run(argc, argv);
}
