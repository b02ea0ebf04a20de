// `sepal verify`, `sepal inspect`, `sepal salvage`: their exit statuses, and the lines that they print.
#include <sepal/storage/examine/examine.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "tools/data/permission.hpp"
#include "tools/shell/commands.hpp"
#include "tools/shell/seed.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

using storage::Finding;

const char* name_of(Finding::Grade grade) {
  switch (grade) {
    case Finding::Grade::fine: return "fine";
    case Finding::Grade::harmless: return "harmless";
    case Finding::Grade::damaged: return "DAMAGED";
    case Finding::Grade::newer: return "NEWER";
  }
  return "";
}

// Says how `path` is in `directory`; empty if it is not. Follows links and resolves dots.
std::string inside_text(const std::filesystem::path& path, const std::filesystem::path& directory) {
  std::error_code unreadable;
  // weakly_canonical() also resolves a path whose last parts are not there yet, as --into usually is.
  const auto whole = std::filesystem::weakly_canonical(path, unreadable);
  const auto outer = std::filesystem::weakly_canonical(directory, unreadable);
  if (whole == outer) return "is the same directory";
  const bool inside =
      std::mismatch(outer.begin(), outer.end(), whole.begin(), whole.end()).first == outer.end();
  return inside ? "is inside " + directory.string() : "";
}

void print(const Finding& finding) {
  std::printf("%-8s  %s\n", name_of(finding.grade), finding.text.c_str());
}

int verify_file(const std::filesystem::path& file) {
  const auto disk = storage::make_posix_disk();
  const auto finding = storage::verify_filter_file(*disk, file, {});
  if (!finding) return refuse("verify", finding.error().detail);
  print(*finding);
  return finding->stops_start() ? exit_refused : exit_good;
}

int verify_directory(const std::filesystem::path& directory) {
  const auto disk = storage::make_posix_disk();
  // A file that this user may not read is no damage.
  if (const auto readable = require_readable(*disk, directory); !readable)
    return refuse("verify", readable.error().detail);
  const auto findings = storage::verify_directory(*disk, directory, {});
  if (!findings) return refuse("verify", findings.error().detail);
  for (const Finding& finding : *findings) print(finding);
  const bool stops = std::ranges::any_of(*findings, &Finding::stops_start);
  std::puts(stops ? "sepald will not start with this" : "a start will load this");
  return stops ? exit_refused : exit_good;
}

struct InspectRequest {
  std::filesystem::path file;
  bool json = false;  // a line of JSON for each thing
};

int inspect(const InspectRequest& request) {
  const auto disk = storage::make_posix_disk();
  const auto done = storage::inspect_file(*disk, request.file, [&](const storage::Fact& fact) {
    std::puts(request.json ? fact.json().c_str() : fact.line().c_str());
  });
  return done ? exit_good : refuse("inspect", done.error().detail);
}

struct SalvageRequest {
  std::filesystem::path directory;
  std::filesystem::path into;
};

int salvage(const SalvageRequest& request) {
  if (const std::string inside = inside_text(request.into, request.directory); !inside.empty())
    return refuse("salvage",
                  request.into.string() + " " + inside + ", which is not written to; name another directory");
  make_files_private();
  const auto disk = storage::make_posix_disk();
  // Otherwise all that this user may not read would be called lost.
  if (const auto readable = require_readable(*disk, request.directory); !readable)
    return refuse("salvage", readable.error().detail);
  const auto report = storage::salvage_directory(*disk, request.directory, request.into, drawn_seed(), {});
  if (!report) return refuse("salvage", report.error().detail);
  for (const std::string& noted : report->noted) std::printf("noted  %s\n", noted.c_str());
  for (const std::string& lost : report->lost) std::printf("lost   %s\n", lost.c_str());
  std::printf("saved  %s with %llu items, ", storage::text_of(report->values).c_str(), wide(report->items));
  std::printf("%llu changes of the journal among them, into %s\n", wide(report->operations),
              request.into.string().c_str());
  return report->lost.empty() ? exit_good : exit_incomplete;
}

}  // namespace

void add_verify_command(CommandLine& line) {
  const auto path = std::make_shared<std::filesystem::path>();
  CLI::App& command = line.add_command("verify",
                                       "Checks a data directory or a filter file and writes nothing; exit "
                                       "status 1: it is not whole, or cannot be read",
                                       [path] {
                                         std::error_code unreadable;
                                         return std::filesystem::is_directory(*path, unreadable)
                                                    ? verify_directory(*path)
                                                    : verify_file(*path);
                                       });
  command.add_option("PATH", *path, "The data directory, or a file that sepal build or merge has made")
      ->type_name("")
      ->required();
}

void add_inspect_command(CommandLine& line) {
  const auto request = std::make_shared<InspectRequest>();
  CLI::App& command =
      line.add_command("inspect", "Prints what a filter file, or a file of a data directory, holds",
                       [request] { return inspect(*request); });
  command
      .add_option("FILE", request->file, "A filter file, MANIFEST, segment of the journal, CURRENT or SEED")
      ->type_name("")
      ->required();
  command.add_flag("--json", request->json, "A line of JSON for each thing");
}

void add_salvage_command(CommandLine& line) {
  const auto request = std::make_shared<SalvageRequest>();
  CLI::App& command = line.add_command(
      "salvage",
      "Saves what is whole of a damaged data directory into a new one; exit status 3: something was lost",
      [request] { return salvage(*request); });
  command.add_option("DIR", request->directory, "The damaged data directory; nothing is written to it")
      ->type_name("")
      ->required();
  command.add_option("--into", request->into, "The new one")
      ->type_name("DIR")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->required();
}

}  // namespace sepal::tools
