#include <sepal/storage/format/named_lines.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tools/build/build.hpp"
#include "tools/build/filter_output.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/seed.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t thread_count_max = 256;
// In the order of the choices of --format: lines, crlf, nul, length.
constexpr std::array formats{ItemFormat::lines, ItemFormat::crlf, ItemFormat::nul,
                             ItemFormat::length_prefixed};

struct BuildArguments {
  BuildRequest request;
  std::optional<std::uint64_t> seed;
  storage::Path seed_directory;
  bool quiet = false;
};

Result<std::uint64_t> seed_of(storage::Disk& disk, const BuildArguments& arguments) {
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

// Standard input may be a file.
std::vector<storage::Path> files_of(const std::vector<std::string>& inputs) {
  std::vector<storage::Path> files;
  files.reserve(inputs.size());
  for (const std::string& input : inputs) files.emplace_back(input == standard_input ? "/dev/stdin" : input);
  return files;
}

// Also with --quiet: a client that asks for the item without a carriage return would be told "no".
void warn(const BuildReport& report) {
  if (report.lines_with_return == 0) return;
  std::fprintf(
      stderr,
      "sepal build: warning: %llu of %llu lines end with a carriage return, which is now part of the "
      "item; --format crlf leaves it out\n",
      wide(report.lines_with_return), wide(report.items_read));
}

int build_with(BuildArguments& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  const auto disk = storage::make_posix_disk();
  BuildRequest& request = arguments.request;
  // Before the seed and the inputs: a build may take hours, and its output must not turn out to be impossible
  // at the end.
  if (request.inputs.empty()) request.inputs.emplace_back(standard_input);
  if (const auto fit = check_output(request.output, files_of(request.inputs)); !fit)
    return refuse("build", fit.error().detail);
  const auto seed = seed_of(*disk, arguments);
  if (!seed) return refuse("build", seed.error().detail);
  request.seed = *seed;
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = build(*disk, request, progress);
  if (!report) return refuse("build", report.error().detail);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!arguments.quiet) print(request, *report, took.count());
  warn(*report);
  return exit_good;
}

void add_input_flags(CLI::App& command, const std::shared_ptr<BuildArguments>& arguments) {
  command
      .add_option("FILE", arguments->request.inputs,
                  "Lists of items, also compressed by gzip or zstd; \"-\", or none: standard input")
      ->type_name("");
  add_choice(command, "--format",
             "How items follow each other: lines, crlf (lines, without a carriage return at their end), nul "
             "(each ends with a zero byte), or length (each begins with its length, 32 bits, little endian)",
             {"lines", "crlf", "nul", "length"},
             [arguments](std::size_t choice) { arguments->request.items.format = formats[choice]; })
      ->default_str("lines");
  add_number(command, "--threads", "Threads to use; all processors if not given",
             {.lowest = 1, .highest = thread_count_max},
             [arguments](std::uint64_t count) { arguments->request.thread_count = count; });
}

void add_filter_flags(CLI::App& command, const std::shared_ptr<BuildArguments>& arguments) {
  BuildRequest& request = arguments->request;
  add_rate(command, "--error", "The error rate, above 0 and below 1", request.error_rate)
      ->default_str(format("%g", request.error_rate));
  add_count(command, "--capacity",
            "The items of the first layer; as many as there are in the input if not given",
            [arguments](std::uint64_t count) { arguments->request.capacity = count; });
  add_growth_flags(command, request.expansion);
  CLI::Option* seed =
      add_seed(command, "--seed", "The seed of the fingerprints, decimal or 0x...; drawn if not given",
               [arguments](std::uint64_t number) { arguments->seed = number; });
  command
      .add_option("--seed-from", arguments->seed_directory,
                  "Take the seed of this data directory of a server")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->excludes(seed);
  add_key_flag(command, "The key that the file names",
               [arguments](const std::string& key) { arguments->request.key = key; });
}

}  // namespace

void add_build_command(CommandLine& line) {
  const auto arguments = std::make_shared<BuildArguments>();
  arguments->request.thread_count =
      // hardware_concurrency() is 0 if the system does not tell.
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, thread_count_max);
  CLI::App& command = line.add_command("build", "Makes a filter file of lists of items",
                                       [arguments] { return build_with(*arguments); });
  add_input_flags(command, arguments);
  add_output_flag(command, arguments->request.output);
  add_filter_flags(command, arguments);
  add_quiet_flag(command, arguments->quiet);
}

}  // namespace sepal::tools
