#include <sepal/storage/generation/restore.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

constexpr std::string_view replaced_prefix = "replaced-";

// `lost+found` belongs to the file system: a data directory may be a mount point.
bool is_data(const std::string& name) {
  return name != "LOCK" && name != "lost+found" && name != restore_folder && name != restore_old &&
         name != restore_new && !name.starts_with("reserve-") && !name.starts_with(replaced_prefix);
}

Result<std::vector<std::string>> data_entries(Disk& disk, const Path& directory) {
  auto names = disk.list(directory);
  if (names) std::erase_if(*names, [](const std::string& name) { return !is_data(name); });
  return names;
}

// A folder that is not there yet.
Result<Path> folder_for_replaced(Disk& disk, const Path& directory) {
  // Not asked of exists(), for which a link to nothing is not there.
  const auto names = disk.list(directory);
  if (!names) return names.error();
  for (std::uint64_t number = 1;; ++number) {
    const std::string name = std::string(replaced_prefix) + std::to_string(number);
    if (std::ranges::find(*names, name) == names->end()) return directory / name;
  }
}

// The new names are synced before the loss of the old ones, so that no file is ever in neither folder.
Result<void> move_entries(Disk& disk, std::span<const std::string> names, const Path& from, const Path& to) {
  for (const std::string& name : names)
    if (auto renamed = disk.rename(from / name, to / name); !renamed) return renamed;
  if (auto synced = disk.sync_directory(to); !synced) return synced;
  return disk.sync_directory(from);
}

// Puts a copy in the place of the data of a directory. A crash at any instant leaves the old data, or the
// new, or one of two folders, with which no start takes the directory:
//
//     restore_old    what was there is being moved into it, or is in it
//     restore_new    the rest of the copy that is being moved into its place
//
// If both are there, the copy was being moved, and restore_old has all that was there before.
class Replacement {
 public:
  Replacement(Disk& disk, const Path& directory) : disk_(disk), directory_(directory) {}

  Result<Path> run() {
    const auto begun = exists(restore_new);
    const auto moving_old = exists(restore_old);
    const auto data = holds_data(disk_, directory_);
    for (const auto* const asked : {&begun, &moving_old, &data})
      if (!*asked) return asked->error();
    if (*begun || *moving_old || *data)
      if (auto done = clear(*begun); !done) return done.error();
    if (auto done = rename_here(Path(restore_folder), Path(restore_new)); !done) return done.error();
    const auto names = disk_.list(directory_ / restore_new);
    if (!names) return names.error();
    if (auto moved = move_entries(disk_, *names, directory_ / restore_new, directory_); !moved)
      return moved.error();
    auto aside = keep_old();
    if (!aside) return aside;
    // Last: until restore_new is gone, no start takes the directory.
    if (auto removed = disk_.remove_tree(directory_ / restore_new); !removed) return removed.error();
    if (auto synced = disk_.sync_directory(directory_); !synced) return synced.error();
    return aside;
  }

 private:
  Result<bool> exists(std::string_view name) { return disk_.exists(directory_ / name); }

  Result<void> rename_here(const Path& from, const Path& to) {
    if (auto renamed = disk_.rename(directory_ / from, directory_ / to); !renamed) return renamed;
    return disk_.sync_directory(directory_);
  }

  // Empties the directory. `begun`: an earlier restore was cut off while it moved its copy, and the directory
  // has a part of that.
  Result<void> clear(bool begun) {
    if (auto made = disk_.make_directory(directory_ / restore_old); !made) return made;
    if (auto synced = disk_.sync_directory(directory_); !synced) return synced;
    const auto names = data_entries(disk_, directory_);
    if (!names) return names.error();
    const Path into = directory_ / (begun ? restore_new : restore_old);
    if (auto moved = move_entries(disk_, *names, directory_, into); !moved || !begun) return moved;
    // Not removed: the operator may have put files there meanwhile.
    const auto aside = folder_for_replaced(disk_, directory_);
    return aside ? rename_here(Path(restore_new), aside->filename()) : Result<void>(aside.error());
  }

  // Gives the old data its final name. Returns the folder; an empty path: there was none.
  Result<Path> keep_old() {
    const auto there = exists(restore_old);
    if (!there) return there.error();
    if (!*there) return Path();
    const auto names = disk_.list(directory_ / restore_old);
    if (!names) return names.error();
    if (names->empty()) {
      const auto removed = disk_.remove_tree(directory_ / restore_old);
      return removed ? Result<Path>(Path()) : removed.error();
    }
    auto aside = folder_for_replaced(disk_, directory_);
    if (!aside) return aside;
    const auto renamed = rename_here(Path(restore_old), aside->filename());
    return renamed ? std::move(aside) : Result<Path>(renamed.error());
  }

  Disk& disk_;
  const Path& directory_;
};

}  // namespace

Result<bool> holds_data(Disk& disk, const Path& directory) {
  const auto names = data_entries(disk, directory);
  if (!names) return names.error();
  return !names->empty();
}

Result<void> require_no_begun_restore(Disk& disk, const Path& directory) {
  for (const std::string_view name : {restore_old, restore_new}) {
    const auto there = disk.exists(directory / name);
    if (!there) return there.error();
    if (!*there) continue;
    return fail(Errc::damaged,
                "a restore into " + directory.string() +
                    " was cut off while it replaced the data; type: sepal restore BACKUP --dir " +
                    quoted_path(directory) +
                    " --force (BACKUP is the backup); it keeps what was there before");
  }
  return {};
}

Result<Path> put_in_place(Disk& disk, const Path& directory) {
  return Replacement(disk, directory).run();
}

}  // namespace sepal::storage
