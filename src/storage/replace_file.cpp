#include <sepal/storage/disk.hpp>

namespace sepal::storage {
namespace {

Result<void> write_synced(Disk& disk, const Path& path, std::span<const std::byte> contents) {
  auto file = disk.create(path);
  if (!file) return file.error();
  if (auto written = (*file)->write_at(0, contents); !written) return written;
  return (*file)->sync();
}

}  // namespace

Result<void> replace_file(Disk& disk, const Path& target, std::span<const std::byte> contents) {
  // In the same directory: a rename across file systems is no rename.
  Path aside = target;
  aside += ".tmp";
  Result<void> done = write_synced(disk, aside, contents);
  if (done) done = disk.rename(aside, target);
  if (done) return disk.sync_directory(target.parent_path());
  // The first error is the one to report; a file that cannot be removed is overwritten the next time.
  static_cast<void>(disk.remove(aside));
  return done;
}

}  // namespace sepal::storage
