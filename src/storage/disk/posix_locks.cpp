#include "storage/disk/posix_locks.hpp"

#include <sepal/base/descriptor.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "storage/disk/posix_calls.hpp"

namespace sepal::storage {

// The flocks end when the descriptors are closed. The lock file stays, because removing it would be a race.
struct DirectoryFlocks {
  Descriptor directory;
  Descriptor file;
};

namespace {

// For processes that ask whether a lock is held. They need microseconds, unless the system stops them.
constexpr std::chrono::seconds wait_for_askers_max{2};
constexpr std::chrono::milliseconds asker_look_period{1};

// The process id in a lock file; empty if it cannot be read.
std::string holder_of(const Descriptor& lock_file) {
  std::array<char, 24> text{};
  const ssize_t count = ::pread(lock_file.number(), text.data(), text.size(), 0);
  const std::string_view read(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  const std::string_view digits = read.substr(0, read.find_first_not_of("0123456789"));
  return std::string(digits);
}

Error held_by_another(const Path& path, const Descriptor& lock_file) {
  const std::string holder = holder_of(lock_file);
  const std::string who = holder.empty() ? "another process" : "process " + holder;
  return fail(Errc::in_use, "the directory " + named(path.parent_path()).string() + " is in use by " + who +
                                ", which holds the lock on " + path.string() +
                                "; stop it, or use another directory");
}

// False: another process has a lock that stands against it.
Result<bool> try_flock(const Descriptor& descriptor, const Path& path, int kind) {
  while (::flock(descriptor.number(), kind | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return failed("lock", path, errno);
  }
  return true;
}

// False: another process holds the lock. One that only asks whether it is held (is_locked()) has a shared
// lock for an instant. A start must not fail for that reason, so such a process is waited for.
Result<bool> try_lock(const Descriptor& descriptor, const Path& path) {
  const auto give_up_at = std::chrono::steady_clock::now() + wait_for_askers_max;
  for (;;) {
    auto taken = try_flock(descriptor, path, LOCK_EX);
    if (!taken || *taken) return taken;
    // The system shares a lock with those who ask, and not with a holder.
    auto shared = try_flock(descriptor, path, LOCK_SH);
    if (!shared || !*shared) return shared;
    // Given back before the pause. Two starts that kept their shared locks would keep each other out.
    static_cast<void>(::flock(descriptor.number(), LOCK_UN));
    if (std::chrono::steady_clock::now() >= give_up_at) return false;
    std::this_thread::sleep_for(asker_look_period);
  }
}

// Whether a process holds the lock of a file or a directory. Closing the descriptor ends the shared lock.
Result<bool> held_by_any(const Path& path, int flags) {
  const Descriptor descriptor = open_descriptor(path, flags);
  if (!descriptor.is_open()) return failed("open", path, errno);
  const auto shared = try_flock(descriptor, path, LOCK_SH);
  return shared ? Result<bool>(!*shared) : shared.error();
}

Result<DirectoryFlocks> take_flocks(const Path& path) {
  // Locks the directory as well, because the lock file can be removed while it is locked, and made anew. On a
  // file system that cannot lock a directory (NFS), only the file is locked.
  const Path parent = named(path.parent_path());
  Descriptor directory = open_descriptor(parent, O_RDONLY | O_DIRECTORY);
  if (!directory.is_open()) return failed("open the directory", parent, errno);
  const auto directory_locked = try_lock(directory, parent);
  if (directory_locked && !*directory_locked)
    return held_by_another(path, open_descriptor(path, O_RDONLY | O_NONBLOCK));
  // Not emptied before it is locked: the lines in it belong to the process that holds the lock.
  auto file = open_regular("open the lock file", path, O_RDWR | O_CREAT);
  if (!file) return file.error();
  const auto locked = try_lock(*file, path);
  if (!locked) return locked.error();
  if (!*locked) return held_by_another(path, *file);
  return DirectoryFlocks{.directory = std::move(directory), .file = std::move(*file)};
}

// Entries that a new file system and an earlier lock leave do not count.
Result<bool> is_empty(const Path& directory, const Path& lock_name, const DirectoryLock::IsOwn& is_own) {
  std::error_code code;
  std::filesystem::directory_iterator at(directory, code);
  for (; !code && at != std::filesystem::directory_iterator(); at.increment(code)) {
    const Path name = at->path().filename();
    // A lock file that is a link leads to a file of others.
    const bool is_lock = name == lock_name && !at->is_symlink(code);
    const bool is_full = at->is_directory(code) && !std::filesystem::is_empty(at->path(), code);
    if (is_lock || name == "lost+found" || (is_own(name.native()) && !is_full)) continue;
    return false;
  }
  return code ? Result<bool>(failed("list", directory, code.value())) : Result<bool>(true);
}

}  // namespace

// Synchronised.
class LockedDirectory {
 public:
  LockedDirectory(Path path, DirectoryFlocks flocks)
      : path_(std::move(path)), directory_(named(path_.parent_path())), flocks_(std::move(flocks)) {}

  Result<void> note(std::string_view lines) {
    const MutexLock lock(mutex_);
    lines_ = lines;
    return write_lines();
  }

  [[nodiscard]] bool holds(const Path& path) const {
    const std::string& inner = path.native();
    const std::string& outer = directory_.native();
    if (!inner.starts_with(outer)) return false;
    return inner.size() == outer.size() || inner[outer.size()] == '/' || outer.ends_with('/');
  }

  Result<void> check() {
    const MutexLock lock(mutex_);
    const auto here = leads_here();
    if (!here) return here.error();
    return *here ? Result<void>() : elsewhere();
  }

  Result<bool> take_replacement(const DirectoryLock::IsOwn& is_own) {
    const MutexLock lock(mutex_);
    const auto here = leads_here();
    if (!here) return here.error().code == Errc::not_found ? Result<bool>(false) : here.error();
    if (*here) return false;
    const auto empty = is_empty(directory_, path_.filename(), is_own);
    if (!empty) return empty.error();
    if (!*empty) return elsewhere();
    auto fresh = take_flocks(path_);
    if (!fresh) return fresh.error();
    // Asked again: another process may have begun and ended there before the lock was taken.
    const auto still_empty = is_empty(directory_, path_.filename(), is_own);
    if (!still_empty) return still_empty.error();
    if (!*still_empty) return elsewhere();
    flocks_ = std::move(*fresh);
    static_cast<void>(write_lines());
    return true;
  }

 private:
  [[nodiscard]] Result<bool> leads_here() const SEPAL_REQUIRES(mutex_) {
    struct stat ours {};
    struct stat there {};
    if (::fstat(flocks_.directory.number(), &ours) != 0) return failed("look at", directory_, errno);
    if (::stat(directory_.c_str(), &there) != 0)
      return errno == ENOENT || errno == ENOTDIR ? nowhere() : failed("look at", directory_, errno);
    return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  }

  [[nodiscard]] Error nowhere() const {
    return fail(Errc::not_found,
                directory_.string() +
                    " is not there: it was moved or removed, or is not mounted; put it back, "
                    "or make an empty directory in its place");
  }

  [[nodiscard]] Error elsewhere() const {
    return fail(Errc::io, directory_.string() +
                              " is not the directory that this process has locked: that one was moved or "
                              "removed, or another one was mounted over it; put it back, or make an empty "
                              "directory in its place");
  }

  Result<void> write_lines() SEPAL_REQUIRES(mutex_) {
    const std::string text = std::to_string(::getpid()) + "\n" + lines_;
    if (::ftruncate(flocks_.file.number(), 0) != 0) return failed("write", path_, errno);
    const ssize_t count = ::pwrite(flocks_.file.number(), text.data(), text.size(), 0);
    if (count < 0) return failed("write", path_, errno);
    // Only a disk without room for the rest makes the system write a part.
    if (static_cast<std::size_t>(count) < text.size()) return failed("write", path_, ENOSPC);
    return {};
  }

  const Path path_;
  const Path directory_;
  Mutex mutex_;  // Lock order: the innermost.
  DirectoryFlocks flocks_ SEPAL_GUARDED_BY(mutex_);
  std::string lines_ SEPAL_GUARDED_BY(mutex_);
};

namespace {

class PosixLock final : public DirectoryLock {
 public:
  explicit PosixLock(std::shared_ptr<LockedDirectory> directory) : directory_(std::move(directory)) {}
  Result<void> note(std::string_view lines) override { return directory_->note(lines); }
  Result<void> check() override { return directory_->check(); }
  Result<bool> take_replacement(const IsOwn& is_own) override { return directory_->take_replacement(is_own); }

 private:
  std::shared_ptr<LockedDirectory> directory_;
};

}  // namespace

Result<std::unique_ptr<DirectoryLock>> PosixLocks::lock(const Path& path) {
  auto flocks = take_flocks(path);
  if (!flocks) return flocks.error();
  auto directory = std::make_shared<LockedDirectory>(path, std::move(*flocks));
  // The process id only serves the message of a lock that is refused. So a failed write is ignored: a full
  // disk must not keep a server from starting.
  static_cast<void>(directory->note({}));
  const MutexLock lock(mutex_);
  std::erase_if(locked_, [](const auto& one) { return one.expired(); });
  locked_.push_back(directory);
  return std::unique_ptr<DirectoryLock>(std::make_unique<PosixLock>(std::move(directory)));
}

std::vector<std::shared_ptr<LockedDirectory>> PosixLocks::above(const Path& path) {
  const MutexLock lock(mutex_);
  std::vector<std::shared_ptr<LockedDirectory>> found;
  for (const auto& one : locked_)
    if (auto directory = one.lock(); directory != nullptr && directory->holds(path))
      found.push_back(std::move(directory));
  return found;
}

Result<void> PosixLocks::check(const Path& path) {
  for (const auto& directory : above(path))
    if (auto checked = directory->check(); !checked) return checked;
  return {};
}

Result<bool> is_locked_by_any(const Path& path) {
  auto file = held_by_any(path, O_RDONLY | O_NONBLOCK);
  if (file ? *file : file.error().code != Errc::not_found) return file;
  // The file may have been removed while it is locked. Where a directory cannot be locked, the file is all
  // that a daemon has locked.
  auto directory = held_by_any(named(path.parent_path()), O_RDONLY | O_DIRECTORY);
  return directory || !file ? directory : file;
}

}  // namespace sepal::storage
