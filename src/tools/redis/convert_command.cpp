#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/redis/convert.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/seed.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

struct ConvertArguments {
  ConvertRequest request;
  storage::Path data_directory;
  storage::Path filter_files;
  bool only_report = false;
  bool quiet = false;
};

int convert_with(ConvertArguments& arguments) {
  ConvertRequest& request = arguments.request;
  const std::array outputs{!arguments.data_directory.empty(), !arguments.filter_files.empty(),
                           arguments.only_report};
  if (std::ranges::count(outputs, true) != 1)
    return refuse_usage("convert", "needs one of --data, --files and --dry-run");
  if (!arguments.data_directory.empty()) request.output = ConvertRequest::Output::data_directory;
  if (!arguments.filter_files.empty()) request.output = ConvertRequest::Output::filter_files;
  request.folder = arguments.data_directory.empty() ? arguments.filter_files : arguments.data_directory;
  request.seed = drawn_seed();
  request.now = std::chrono::system_clock::now();
  const auto disk = storage::make_posix_disk();
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = convert(*disk, request, progress);
  if (!report) return refuse("convert", report.error().detail);
  if (!arguments.quiet)
    for (const std::string& line : report_of(report->keys)) std::puts(line.c_str());
  return report->keys.refused.empty() ? exit_good : exit_incomplete;
}

}  // namespace

void add_convert_command(CommandLine& line) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App& command = line.add_command(
      "convert",
      "Makes a data directory or filter files of an RDB file of Redis: filters and strings; exit status 3: "
      "something was left out",
      [arguments] { return convert_with(*arguments); });
  command
      .add_option(
          "INPUT", arguments->request.input,
          "An RDB file; or the manifest of an append-only file without changes since its base, or its "
          "folder")
      ->type_name("")
      ->required();
  command
      .add_option("--data", arguments->data_directory,
                  "Make this data directory, which sepald then starts with")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command
      .add_option(
          "--files", arguments->filter_files,
          "Make a filter file for each Bloom filter in this folder, without databases, deadlines and strings")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  command.add_flag("--dry-run", arguments->only_report, "Write nothing; print what there is");
  add_quiet_flag(command, arguments->quiet);
}

}  // namespace sepal::tools
