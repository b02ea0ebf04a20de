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

// Without links in the part of the path that is there, and without a slash at its end.
Result<storage::Path> resolved(const storage::Path& path) {
  std::error_code wrong;
  storage::Path whole = std::filesystem::absolute(path, wrong);
  if (!wrong) whole = std::filesystem::weakly_canonical(whole, wrong);
  if (wrong) return fail(Errc::io, "cannot look at " + path.string() + ": " + wrong.message());
  return whole.has_filename() ? whole : whole.parent_path();
}

Result<void> require_folder(const storage::Path& folder) {
  std::error_code wrong;
  const auto found = std::filesystem::status(folder, wrong);
  if (found.type() == std::filesystem::file_type::not_found)
    return fail(Errc::io, "there is no folder " + folder.string() + " (import_dir)");
  if (wrong) return fail(Errc::io, "cannot look at import_dir " + folder.string() + ": " + wrong.message());
  if (!std::filesystem::is_directory(found))
    return fail(Errc::io, folder.string() + " (import_dir) is no folder");
  return {};
}

}  // namespace

Result<void> check_import_folder(const storage::Path& folder, const storage::Path& data) {
  // Resolved, so that a link does not hide that the two meet.
  const auto resolved_data = resolved(data);
  if (!resolved_data) return resolved_data.error();
  const auto resolved_folder = resolved(folder);
  if (!resolved_folder) return resolved_folder.error();
  if (!is_in(*resolved_folder, *resolved_data) && *resolved_folder != resolved_data->parent_path())
    return require_folder(folder);
  return fail(Errc::io,
              "import_dir must not be the data directory, lie in it or contain it directly, or an "
              "export could destroy the data: import_dir is " +
                  resolved_folder->string() + ", dir is " + resolved_data->string());
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
