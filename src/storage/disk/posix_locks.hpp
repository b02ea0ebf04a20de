// The directories that this process has locked, and whether their paths still lead to them.
//
// A path stops to lead to its directory when the directory is moved, when another file system is mounted over
// it, or when another directory is renamed into its place. There another process may have its files: they
// must not be touched through the path.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <memory>
#include <vector>

namespace sepal::storage {

class LockedDirectory;

// Synchronised. Blocks.
class PosixLocks {
 public:
  // Disk::lock().
  Result<std::unique_ptr<DirectoryLock>> lock(const Path& path);
  // Whether `path` is outside of all directories that are locked, or leads into one of them, or nowhere.
  // Errors: io.
  Result<void> check(const Path& path);

 private:
  // Those that the path is in.
  std::vector<std::shared_ptr<LockedDirectory>> above(const Path& path);

  Mutex mutex_;  // Lock order: the innermost.
  std::vector<std::weak_ptr<LockedDirectory>> locked_ SEPAL_GUARDED_BY(mutex_);
};

// Disk::is_locked().
Result<bool> is_locked_by_any(const Path& path);

}  // namespace sepal::storage
