#include "import_folder.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/storage/filter_file.hpp>

namespace sepal::app {
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
