#include "import_folder.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/storage/filter_file.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace sepal::app {
namespace {

bool is_in(const storage::Path& path, const storage::Path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

Result<void> check_import_folder(const storage::Path& folder, const storage::Path& data) {
  std::error_code wrong;
  const storage::Path canonical_data = std::filesystem::canonical(data, wrong);
  if (wrong) return fail(Errc::io, "cannot look at " + data.string() + ": " + wrong.message());
  // What is not there yet may be made later.
  storage::Path canonical = std::filesystem::absolute(folder, wrong);
  if (!wrong) canonical = std::filesystem::weakly_canonical(canonical, wrong);
  if (wrong) return fail(Errc::io, "cannot look at import_dir " + folder.string() + ": " + wrong.message());
  if (!is_in(canonical, canonical_data) && canonical != canonical_data.parent_path()) return {};
  return fail(Errc::io,
              "import_dir must not be the data directory, lie in it or contain it directly, or an "
              "export could destroy the data: import_dir is " +
                  canonical.string() + ", dir is " + canonical_data.string());
}

Result<keyspace::FilterPtr> ImportFolder::read(const std::string& name, const command::Making& making) {
  SEPAL_ASSERT(command::is_plain_name(name), "a name that leads out of the folder");
  const storage::Path path = folder_ / name;
  auto file = disk_.open_plain(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  // A filter takes about as much as its file.
  if (auto held = making.hold(*size); !held) return held.error();
  auto read = storage::read_filter_file(**file, path, making.limits, [&](const storage::Progress& progress) {
    return making.go_on(progress.bytes_done);
  });
  if (!read && read.error().code == Errc::out_of_range) return fail(Errc::damaged, read.error().detail);
  if (!read) return read.error();
  return std::move(read->filter);
}

Result<void> ImportFolder::write(const command::OutgoingFile& file, const command::Making& making) {
  SEPAL_ASSERT(command::is_plain_name(file.name), "a name that leads out of the folder");
  const storage::Path path = folder_ / file.name;
  const auto there = disk_.exists(path);
  if (!there) return there.error();
  if (*there && !file.replace) return fail(Errc::io, path.string() + " is there already; say REPLACE");
  const auto written = storage::write_filter_file(
      disk_, path,
      {.key = file.key,
       .filter = file.filter.filter(),
       .header = file.filter.header(),
       .layers = file.filter.layers()},
      [&](const storage::Progress& progress) { return making.go_on(progress.bytes_done); });
  return written ? Result<void>() : written.error();
}

}  // namespace sepal::app
