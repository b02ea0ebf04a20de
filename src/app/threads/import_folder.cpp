#include "app/threads/import_folder.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>
#include <sepal/storage/generation/filter_file.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>

namespace sepal::app {
namespace {

bool is_in(const storage::Path& path, const storage::Path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// Without links in its path.
Result<storage::Path> find_import_folder(const storage::Path& folder) {
  std::error_code wrong;
  storage::Path canonical = std::filesystem::canonical(folder, wrong);
  if (wrong == std::errc::no_such_file_or_directory)
    return fail(Errc::io, "there is no folder " + folder.string() + " (import_dir)");
  if (!wrong && !std::filesystem::is_directory(canonical, wrong) && !wrong)
    return fail(Errc::io, folder.string() + " (import_dir) is no folder");
  if (wrong) return fail(Errc::io, "cannot look at import_dir " + folder.string() + ": " + wrong.message());
  return canonical;
}

}  // namespace

Result<void> require_import_folder(const storage::Path& folder) {
  const auto found = find_import_folder(folder);
  return found ? Result<void>() : found.error();
}

Result<void> check_import_folder(const storage::Path& folder, const storage::Path& data) {
  std::error_code wrong;
  // Canonical paths, so that a link does not hide that the two meet.
  const storage::Path canonical_data = std::filesystem::canonical(data, wrong);
  if (wrong) return fail(Errc::io, "cannot look at " + data.string() + ": " + wrong.message());
  const auto found = find_import_folder(folder);
  if (!found) return found.error();
  const storage::Path& canonical = *found;
  if (!is_in(canonical, canonical_data) && canonical != canonical_data.parent_path()) return {};
  return fail(Errc::io,
              "import_dir must not be the data directory, lie in it or contain it directly, or an "
              "export could destroy the data: import_dir is " +
                  canonical.string() + ", dir is " + canonical_data.string());
}

void remove_import_remains(const storage::Path& folder) {
  constexpr std::chrono::hours unused_min{1};
  std::error_code wrong;
  const auto oldest_kept = std::filesystem::file_time_type::clock::now() - unused_min;
  for (std::filesystem::directory_iterator at(folder, wrong), end; !wrong && at != end; at.increment(wrong)) {
    if (!storage::is_aside_name(at->path().filename().string())) continue;
    std::error_code unknown;
    const auto changed = std::filesystem::last_write_time(at->path(), unknown);
    if (unknown || changed > oldest_kept) continue;
    if (std::filesystem::remove(at->path(), unknown))
      log::info("remains_removed", "remains removed", {{"file", at->path().native()}});
    else
      log::warn("remains_not_removed", "remains not removed",
                {{"file", at->path().native()}, {"reason", unknown.message()}});
  }
}

Result<value::ValuePtr> ImportFolder::read(const std::string& name, value::Kind kind,
                                           const command::JobContext& job) {
  SEPAL_ASSERT(command::is_plain_name(name), "a name that leads out of the folder");
  const storage::Path path = folder_ / name;
  auto file = disk_.open_plain(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  // A filter takes about as much memory as its file has bytes.
  if (auto held = job.hold(*size); !held) return held.error();
  auto read = storage::read_filter_file(**file, path, job.limits, [&](const storage::Progress& progress) {
    return job.go_on(progress.bytes_done);
  });
  // A whole file with no filter or several: for the client it is as good as damaged.
  if (!read && read.error().code == Errc::out_of_range) return fail(Errc::damaged, read.error().detail);
  if (!read) return read.error();
  if (read->value->kind() != kind)
    return fail(Errc::damaged, path.string() + " holds a " + std::string(value::row_of(*read->value).word) +
                                   " instead of a " + std::string(value::row_of(kind).word));
  return std::move(read->value);
}

Result<void> ImportFolder::write(const command::OutgoingFile& file, const command::JobContext& job) {
  SEPAL_ASSERT(command::is_plain_name(file.name), "a name that leads out of the folder");
  const storage::Path path = folder_ / file.name;
  const auto there = disk_.exists(path);
  if (!there) return there.error();
  if (*there && !file.replace) return fail(Errc::io, path.string() + " is there already; say REPLACE");
  const auto written = storage::write_filter_file(
      disk_, path, file.key, file.value->view(),
      [&](const storage::Progress& progress) { return job.go_on(progress.bytes_done); });
  return written ? Result<void>() : written.error();
}

}  // namespace sepal::app
