#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/redis/migrate.hpp"
#include "tools/redis/tls_flags.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t pattern_bytes_max = 4096;
constexpr std::uint64_t database_number_max = 0x7fffffff;

struct MigrateArguments {
  MigrateRequest request;
  std::string source;
  std::string target;
  std::vector<std::pair<std::string, std::string>> bitmaps;
  bool quiet = false;
};

std::string password_of(const char* variable) {
  // No other thread changes the environment.
  const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

void print(const MigrateRequest& request, const MigrateReport& report) {
  std::puts(request.only_report ? "to copy, where it is not at the target already:" : "copied:");
  for (const std::string& line : report_of(report.keys)) std::puts(line.c_str());
  if (!request.bitmaps.empty())
    std::printf("bitmaps  %llu of the strings %s\n", wide(report.bitmaps),
                request.only_report ? "are to become filters" : "have become filters");
  if (report.source_has_mirrors) std::puts("mirrors  the links of BF.MIRROR at the source are not moved");
  if (report.source_in_cluster)
    std::puts(
        "cluster  the source is one node of a cluster, and only its own keys count here: run this for each "
        "of "
        "them");
  if (request.only_report) return;
  std::printf("same     %llu filters were at the target already, with these figures", wide(report.same));
  std::printf(report.deadlines == 0 ? "\n" : "; %llu of them got another deadline\n", wide(report.deadlines));
  if (report.same_strings != 0)
    std::printf(
        "same     %llu strings were at the target already, byte for byte; %llu of them got another "
        "deadline\n",
        wide(report.same_strings), wide(report.string_deadlines));
  std::printf(
      "checked  %llu filters, with %llu random items each: both servers said yes to the same %llu items\n",
      wide(report.samples), wide(report.questions), wide(report.hits));
  if (report.string_samples != 0)
    std::printf("checked  %llu strings: the target has what was read from the source\n",
                wide(report.string_samples));
  if (report.bitmaps_before != 0)
    std::printf(
        "before   %llu bitmaps became filters in an earlier run. Bits that clients have set at the source "
        "since "
        "are not in them\n",
        wide(report.bitmaps_before));
  if (report.changed != 0)
    std::printf("changed  %llu of these at the source since they were copied: run this again\n",
                wide(report.changed));
}

void warn_of_no_key(const MigrateRequest& request) {
  const auto database = request.database ? request.database : request.source.database;
  const std::string place =
      database ? "database " + std::to_string(*database) + " of the source" : "the source";
  if (request.match != MigrateRequest().match)
    std::fprintf(stderr, "sepal migrate: --match '%s': %s has no such key\n", request.match.c_str(),
                 place.c_str());
  else
    std::fprintf(stderr, "sepal migrate: %s has no key%s\n", place.c_str(),
                 database ? "" : "; are source and target in the right order?");
}

// A pattern with a wrong letter, or the number of another database, moves nothing, and is no error.
void warn_of_what_was_not_found(const MigrateRequest& request, const MigrateReport& report) {
  if (report.found_nothing) warn_of_no_key(request);
  for (const BitmapRule& rule : report.unmatched_rules)
    std::fprintf(stderr, "sepal migrate: --bitmap '%s': the source has no string with such a key\n",
                 rule.pattern.c_str());
}

int migrate_with(MigrateArguments& arguments) {
  MigrateRequest& request = arguments.request;
  const auto source = parse_address(arguments.source);
  if (!source) return refuse_usage("migrate", source.error().detail);
  const auto target = parse_address(arguments.target);
  if (!target) return refuse_usage("migrate", target.error().detail);
  request.source = *source;
  request.target = *target;
  request.source_password = password_of(source_variable);
  request.target_password = password_of(target_variable);
  if (half_a_certificate(request.tls)) return refuse_usage("migrate", "--cert and --key belong together");
  for (const auto& [pattern, scheme] : arguments.bitmaps)
    request.bitmaps.push_back({.pattern = pattern, .scheme = scheme});
  Progress progress(stderr, progress_style(arguments.quiet));
  const auto report = migrate(request, progress);
  progress.end();
  if (!report) return refuse("migrate", report.error().detail);
  if (!arguments.quiet) print(request, *report);
  warn_of_what_was_not_found(request, *report);
  return report->keys.refused.empty() ? exit_good : exit_incomplete;
}

}  // namespace

void add_migrate_command(CommandLine& line) {
  const auto arguments = std::make_shared<MigrateArguments>();
  CLI::App& command = line.add_command("migrate",
                                       "Copies the filters and strings of a running Redis, or of a sepald, "
                                       "to a sepald; exit status 3: something "
                                       "was left out",
                                       [arguments] { return migrate_with(*arguments); });
  command
      .add_option("SOURCE", arguments->source,
                  "redis://[USER@]HOST[:PORT][/DB], rediss://... for TLS, or unix://[USER@]/PATH[?db=DB]")
      ->type_name("")
      ->required();
  command.add_option("TARGET", arguments->target, "The same for the server that gets them")
      ->type_name("")
      ->required();
  add_text(command, "--match", "Only keys of this pattern, as in SCAN", pattern_bytes_max,
           [arguments](const std::string& pattern) { arguments->request.match = pattern; });
  add_number(command, "--db", "Only this database of the source; all if not given",
             {.lowest = 0, .highest = database_number_max}, [arguments](std::uint64_t number) {
               arguments->request.database = static_cast<std::uint32_t>(number);
             });
  command
      .add_option("--bitmap", arguments->bitmaps,
                  "Strings of this pattern become filters: 'PATTERN' 'SCHEME BITS n CAPACITY n ...', as in "
                  "BF.IMPORTBITMAP; may be repeated")
      ->type_name("PATTERN SCHEME");
  add_tls_flags(command, arguments->request.tls);
  command.add_flag("--dry-run", arguments->request.only_report, "Copy nothing; print what there is");
  add_quiet_flag(command, arguments->quiet);
  command.footer("Passwords come from the environment: SEPAL_SOURCE_PASSWORD and SEPAL_TARGET_PASSWORD.");
}

}  // namespace sepal::tools
