#include <cstdio>
#include <memory>

#include "tools/build/filter_output.hpp"
#include "tools/build/merge.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

struct MergeArguments {
  MergeRequest request;
  bool quiet = false;
};

void print(const MergeRequest& request, const MergeReport& report) {
  std::printf("items   about %llu different ones; %llu in all files together\n", wide(report.item_estimate),
              wide(report.item_sum));
  std::printf("filter  capacity %llu\n", wide(report.capacity));
  std::printf("file    %s, %s\n", request.output.c_str(), bytes_text(report.file_bytes).c_str());
}

int merge_with(const MergeArguments& arguments) {
  if (const auto fit = check_output(arguments.request.output, arguments.request.inputs); !fit)
    return refuse("merge", fit.error().detail);
  const auto disk = storage::make_posix_disk();
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = merge(*disk, arguments.request, progress);
  if (!report) return refuse("merge", report.error().detail);
  if (!arguments.quiet) print(arguments.request, *report);
  return exit_good;
}

}  // namespace

void add_merge_command(CommandLine& line) {
  const auto arguments = std::make_shared<MergeArguments>();
  CLI::App& command = line.add_command("merge", "Makes one filter file of several of the same seed and shape",
                                       [arguments] { return merge_with(*arguments); });
  command.add_option("FILE", arguments->request.inputs, "Filter files")->type_name("")->required();
  add_output_flag(command, arguments->request.output);
  add_key_flag(command, "The key that the file names; the first file's if not given",
               [arguments](const std::string& key) { arguments->request.key = key; });
  add_quiet_flag(command, arguments->quiet);
}

}  // namespace sepal::tools
