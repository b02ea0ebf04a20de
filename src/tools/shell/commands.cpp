#include "tools/shell/commands.hpp"

#include <sepal/bloom/filter/filter.hpp>
#include <sepal/bloom/kernel/choice.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "tools/shell/run.hpp"

namespace sepal::tools {

int run(const std::string& version, int argc, char** argv) {
  if (const auto checked = bloom::check_kernel(); !checked) {
    std::fprintf(stderr, "sepal: %s\n", checked.error().detail.c_str());
    return exit_usage;
  }
  CommandLine line("Tools for Sepal. Only migrate, and backup with a server, need running servers", version);
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

int refuse(const char* command, const std::string& why) {
  std::fprintf(stderr, "sepal %s: %s\n", command, why.c_str());
  return exit_refused;
}

int refuse_usage(const char* command, const std::string& why) {
  refuse(command, why + "; sepal " + command + " --help tells more");
  return exit_usage;
}

void make_files_private() {
  constexpr mode_t only_for_the_user = 0077;
  ::umask(only_for_the_user);
}

void add_growth_flags(CLI::App& command, std::uint32_t& expansion) {
  CLI::Option* option =
      add_number(command, "--expansion", "A new layer holds this many times the last",
                 {.lowest = 0, .highest = bloom::expansion_max},
                 [&expansion](std::uint64_t number) { expansion = static_cast<std::uint32_t>(number); })
          ->default_str(std::to_string(expansion));
  command
      .add_flag_callback(
          "--nonscaling", [&expansion] { expansion = 0; }, "The filter refuses what is above its capacity")
      ->excludes(option);
}

void add_key_flag(CLI::App& command, const std::string& help, TakeText take) {
  add_text(command, "--key", help, keyspace::key_bytes_max, std::move(take));
}

void add_output_flag(CLI::App& command, std::filesystem::path& output) {
  command.add_option("-o,--output", output, "The filter file; replaced when it is done")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->required();
}

void add_quiet_flag(CLI::App& command, bool& quiet) {
  command.add_flag("-q,--quiet", quiet, "Print nothing but errors");
}

Progress::Style progress_style(bool quiet) {
  if (quiet) return Progress::Style::none;
  return ::isatty(STDERR_FILENO) == 1 ? Progress::Style::bar : Progress::Style::lines;
}

}  // namespace sepal::tools
