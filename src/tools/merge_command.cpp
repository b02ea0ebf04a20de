#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "filter_output.hpp"
#include "merge.hpp"
#include "text.hpp"

namespace sepal::tools {
namespace {

struct Arguments {
  MergeRequest request;
  bool quiet = false;
};

void print(const MergeRequest& request, const MergeReport& report) {
  std::printf("items   about %llu different ones; %llu in all files together\n", wide(report.item_estimate),
              wide(report.item_sum));
  std::printf("filter  capacity %llu\n", wide(report.capacity));
  std::printf("file    %s, %s\n", request.output.c_str(), bytes_text(report.file_bytes).c_str());
}

int merge_with(const Arguments& arguments) {
  if (const auto fit = check_output(arguments.request.output); !fit)
    return refuse("merge", fit.error().detail);
  const auto disk = storage::make_posix_disk();
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = merge(*disk, arguments.request, progress);
  if (!report) return refuse("merge", report.error().detail);
  print(arguments.request, *report);
  return exit_good;
}

}  // namespace

void add_merge_command(CLI::App& tools, int& exit_status) {
  CLI::App& command =
      *tools.add_subcommand("merge", "Makes one filter file of several of the same seed and shape");
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->request.inputs, "Filter files")->required();
  command.add_option("-o,--output", arguments->request.output, "The filter file; replaced when it is done")
      ->required();
  command
      .add_option("--key", arguments->request.key,
                  "The key that the file names; the first file's if not given")
      ->check(refuse_long_key);
  command.add_flag("--quiet", arguments->quiet, "Do not show the progress");
  command.callback([arguments, &exit_status] { exit_status = merge_with(*arguments); });
}

}  // namespace sepal::tools
