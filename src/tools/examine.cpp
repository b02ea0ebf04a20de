#include "examine.hpp"

#include <sepal/storage/examine.hpp>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

namespace sepal::tools {
namespace {

using storage::Finding;

int refuse(const char* tool, const std::string& why) {
  std::fprintf(stderr, "sepal %s: %s\n", tool, why.c_str());
  return exit_refused;
}

const char* name_of(Finding::Grade grade) {
  switch (grade) {
    case Finding::Grade::fine:
      return "fine";
    case Finding::Grade::harmless:
      return "harmless";
    case Finding::Grade::damaged:
      return "DAMAGED";
  }
  return "";
}

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// Whether `path` is `directory` or in it, links and dots aside.
bool is_inside(const std::filesystem::path& path, const std::filesystem::path& directory) {
  std::error_code unreadable;
  const auto whole = std::filesystem::weakly_canonical(path, unreadable);
  const auto outer = std::filesystem::weakly_canonical(directory, unreadable);
  return std::mismatch(outer.begin(), outer.end(), whole.begin(), whole.end()).first == outer.end();
}

}  // namespace

int verify(const VerifyRequest& request) {
  const auto disk = storage::make_posix_disk();
  const auto findings = storage::verify_directory(*disk, request.directory, {});
  if (!findings) return refuse("verify", findings.error().detail);
  const auto is_damaged = [](const Finding& finding) { return finding.grade == Finding::Grade::damaged; };
  for (const Finding& finding : *findings)
    std::printf("%-8s  %s\n", name_of(finding.grade), finding.text.c_str());
  const bool damaged = std::any_of(findings->begin(), findings->end(), is_damaged);
  std::puts(damaged ? "sepald will not start with this" : "a start will load this");
  return damaged ? exit_refused : exit_good;
}

int inspect(const InspectRequest& request) {
  const auto disk = storage::make_posix_disk();
  const auto done = storage::inspect_file(*disk, request.file, [&](const storage::Fact& fact) {
    std::puts(request.json ? fact.json().c_str() : fact.line().c_str());
  });
  return done ? exit_good : refuse("inspect", done.error().detail);
}

int salvage(const SalvageRequest& request) {
  if (is_inside(request.into, request.directory))
    return refuse("salvage", request.into.string() + " is inside " + request.directory.string() +
                                 ", which is not written to; name another directory");
  const auto disk = storage::make_posix_disk();
  const auto report = storage::salvage_directory(*disk, request.directory, request.into, random_seed(), {});
  if (!report) return refuse("salvage", report.error().detail);
  for (const std::string& lost : report->lost) std::printf("lost   %s\n", lost.c_str());
  std::printf("saved  %llu filters with %llu items, %llu changes of the journal among them, into %s\n",
              static_cast<unsigned long long>(report->filters),
              static_cast<unsigned long long>(report->items),
              static_cast<unsigned long long>(report->operations), request.into.string().c_str());
  return exit_good;
}

}  // namespace sepal::tools
