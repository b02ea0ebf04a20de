#include "tools/data/kept_backups.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace sepal::tools {
namespace {

using storage::Disk;
using storage::Path;
using Seconds = std::time_t;

constexpr const char* name_pattern = "backup-%Y%m%dT%H%M%SZ";

std::string name_at(Seconds seconds) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, name_pattern, &parts)};
}

// The time in the name of a backup; empty for every other name.
std::optional<Seconds> time_in(const std::string& name) {
  std::tm parts{};
  const char* const end = strptime(name.c_str(), name_pattern, &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const Seconds seconds = timegm(&parts);
  // strptime() also takes blanks and short numbers.
  return name_at(seconds) == name ? std::optional(seconds) : std::nullopt;
}

// What stands in a backup of `sepal backup`.
bool belongs_in_backup(std::string_view name) {
  constexpr std::string_view whole[] = {"CURRENT", "SEED", "SYNCED"};
  constexpr std::string_view begins[] = {"generation-", "journal-", "adopted-"};
  return std::ranges::find(whole, name) != std::end(whole) ||
         std::ranges::any_of(begins, [&](std::string_view begin) { return name.starts_with(begin); });
}

// The line in the SEED of a data directory, which a copy has too. It is drawn once, so two data directories
// have different ones.
Result<std::string> seed_line(Disk& disk, const Path& directory) {
  const auto file = disk.open(directory / "SEED");
  if (!file) return file.error();
  std::string text(256, '\0');
  const auto read = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  if (!read) return read.error();
  text.resize(*read);
  return text;
}

bool is_plain_folder(const Path& path) {
  std::error_code code;
  return std::filesystem::symlink_status(path, code).type() == std::filesystem::file_type::directory;
}

// Whether the folder is a backup of the data directory with this SEED, and nothing more. What cannot be read
// is none.
bool is_backup_of(Disk& disk, const Path& path, const std::string& seed) {
  if (!is_plain_folder(path)) return false;
  const auto names = disk.list(path);
  if (!names || !std::all_of(names->begin(), names->end(), belongs_in_backup)) return false;
  const auto own = seed_line(disk, path);
  return own && *own == seed;
}

// Removes a folder of the form .partial, unless a program uses it.
Result<void> remove_unfinished(Disk& disk, const Path& path) {
  const auto lock = disk.lock(path / "LOCK");
  if (!lock) return lock.error().code == Errc::in_use ? Result<void>() : lock.error();
  return disk.remove_tree(path);
}

// The backup loses its name first. So a program that is killed leaves no half of a backup under it.
Result<void> remove_backup(Disk& disk, const Path& path) {
  const Path aside = path.string() + partial_suffix;
  if (auto made = disk.make_directory(aside); !made) return made;
  const auto lock = disk.lock(aside / "LOCK");
  if (!lock) return lock.error();
  if (auto renamed = disk.rename(path, aside / partial_data); !renamed) return renamed;
  return disk.remove_tree(aside);
}

}  // namespace

Result<KeptBackups> KeptBackups::open(Path folder, WallTime now) {
  KeptBackups kept;
  Disk& disk = *kept.disk_;
  if (auto made = disk.make_directory(folder); !made) return made.error();
  const auto has_seed = disk.exists(folder / "SEED");
  if (!has_seed) return has_seed.error();
  if (*has_seed)
    return fail(Errc::in_use,
                folder.string() + " is a data directory or a backup; name a folder that has backups in it");
  auto lock = disk.lock(folder / "LOCK");
  if (!lock) return lock.error();
  kept.lock_ = std::move(*lock);

  const auto names = disk.list(folder);
  if (!names) return names.error();
  Seconds next = std::chrono::system_clock::to_time_t(now);
  for (const std::string& name : *names) {
    const bool is_partial = name.ends_with(partial_suffix);
    const auto time =
        time_in(is_partial ? name.substr(0, name.size() - std::string_view(partial_suffix).size()) : name);
    if (!time) continue;
    if (!is_partial) {
      next = std::max(next, *time + 1);
    } else if (is_plain_folder(folder / name)) {
      if (auto removed = remove_unfinished(disk, folder / name); !removed) return removed.error();
    }
  }
  const std::string name = name_at(next);
  if (!time_in(name))
    return fail(Errc::out_of_range,
                folder.string() + " has a name of the year 9999, behind which no other stands: move it away");
  kept.next_ = folder / name;
  kept.folder_ = std::move(folder);
  return kept;
}

Result<KeptReport> KeptBackups::remove_old(std::size_t keep) {
  SEPAL_ASSERT(keep > 0 && lock_ != nullptr, "the new backup is kept, in a folder that is locked");
  const auto seed = seed_line(*disk_, next_);
  if (!seed) return seed.error();
  auto names = disk_->list(folder_);
  if (!names) return names.error();
  std::reverse(names->begin(), names->end());  // the newest first, which is next()
  KeptReport report;
  for (const std::string& name : *names) {
    if (!time_in(name)) continue;
    if (!is_backup_of(*disk_, folder_ / name, *seed)) {
      report.strange.push_back(name);
    } else if (report.kept < keep) {
      ++report.kept;
    } else {
      if (auto removed = remove_backup(*disk_, folder_ / name); !removed) return removed.error();
      ++report.removed;
    }
  }
  return report;
}

}  // namespace sepal::tools
