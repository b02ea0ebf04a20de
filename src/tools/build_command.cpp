#include <sepal/storage/data_directory.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <unistd.h>

#include "build.hpp"
#include "commands.hpp"
#include "filter_output.hpp"
#include "text.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t thread_count_max = 256;

struct Arguments {
  BuildRequest request;
  std::optional<std::uint64_t> seed;
  storage::Path seed_directory;
  bool quiet = false;
};

Result<std::uint64_t> seed_of(storage::Disk& disk, const Arguments& arguments) {
  if (arguments.seed_directory.empty()) return arguments.seed ? *arguments.seed : drawn_seed();
  const auto seed = storage::read_seed(disk, arguments.seed_directory);
  if (!seed) return seed.error();
  if (!*seed) return fail(Errc::not_found, "there is no SEED in " + arguments.seed_directory.string());
  return **seed;
}

void print(const BuildRequest& request, const BuildReport& report, double seconds) {
  std::printf("items   %llu read, %llu added; the others were known, or looked like known ones\n",
              wide(report.items_read), wide(report.items_added));
  std::printf("filter  capacity %llu, error rate %g, %u layer%s\n", wide(report.capacity), request.error_rate,
              report.layer_count, report.layer_count == 1 ? "" : "s");
  std::printf("seed    %llu\n", wide(request.seed));
  std::printf("file    %s, %s\n", request.output.c_str(), bytes_text(report.file_bytes).c_str());
  std::printf("time    %.2f s, %s items/s\n", seconds,
              amount_text(static_cast<double>(report.items_read) / seconds).c_str());
}

int build_with(Arguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const auto disk = storage::make_posix_disk();
  BuildRequest& request = arguments.request;
  if (const auto fit = check_output(request.output); !fit) return refuse("build", fit.error().detail);
  const auto seed = seed_of(*disk, arguments);
  if (!seed) return refuse("build", seed.error().detail);
  request.seed = *seed;
  if (request.inputs.empty()) request.inputs.emplace_back(standard_input);
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = build(*disk, request, progress);
  if (!report) return refuse("build", report.error().detail);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  print(request, *report, took.count());
  return exit_good;
}

void add_input_options(CLI::App& command, Arguments& arguments) {
  command.add_option("FILE", arguments.request.inputs,
                     "Lists of items, also compressed by gzip or zstd; \"-\", or none: standard input");
  command
      .add_option(
          "--format", arguments.request.items.format,
          "How items follow each other: lines, nul (each ends with a zero byte), or length (each begins "
          "with its length, 32 bits, little endian)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ItemFormat>{
          {"lines", ItemFormat::lines}, {"nul", ItemFormat::nul}, {"length", ItemFormat::length_prefixed}}))
      ->option_text("lines|nul|length [lines]");
  command
      .add_option("--threads", arguments.request.thread_count, "Threads to use; all processors if not given")
      ->check(CLI::Range(std::size_t{1}, thread_count_max));
}

void add_filter_options(CLI::App& command, Arguments& arguments) {
  BuildRequest& request = arguments.request;
  command.add_option("--error", request.error_rate, "The error rate, between 0 and 1")->capture_default_str();
  command
      .add_option("--capacity", request.capacity,
                  "The items of the first layer; as many as there are in the input if not given")
      ->check(refuse_sign);
  add_growth_options(command, request.expansion);
  CLI::Option* seed =
      command.add_option("--seed", arguments.seed, "The seed of the fingerprints; drawn if not given")
          ->check(refuse_sign);
  command
      .add_option("--seed-from", arguments.seed_directory, "Take the seed of this data directory of a server")
      ->excludes(seed);
  command.add_option("--key", request.key, "The key that the file names")->check(refuse_long_key);
}

}  // namespace

void add_build_command(CLI::App& tools, int& exit_status) {
  CLI::App& command = *tools.add_subcommand("build", "Makes a filter file of lists of items");
  const auto arguments = std::make_shared<Arguments>();
  arguments->request.thread_count =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, thread_count_max);
  add_input_options(command, *arguments);
  command.add_option("-o,--output", arguments->request.output, "The filter file; replaced when it is done")
      ->required();
  add_filter_options(command, *arguments);
  command.add_flag("--quiet", arguments->quiet, "Do not show the progress");
  command.callback([arguments, &exit_status] { exit_status = build_with(*arguments); });
}

}  // namespace sepal::tools
