// The disk of a POSIX system. Every error names the operation that failed, the path, and the system's reason.
#include <sepal/base/descriptor.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace sepal::storage {
namespace {

// The most that a file may have: other users may not read it, because keys can be confidential. sepald's
// umask takes the group's rights, too.
constexpr mode_t file_mode = 0640;
constexpr mode_t directory_mode = 0750;

constexpr std::uint64_t zeros_bytes = std::uint64_t{1} << 20;    // written in one go
constexpr std::size_t populated_bytes = std::size_t{256} << 10;  // in one go

// For processes that ask whether a lock is held. They need microseconds, unless the system stops them.
constexpr std::chrono::seconds wait_for_askers_max{2};
constexpr std::chrono::milliseconds asker_look_period{1};

Errc code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return Errc::disk_full;
    case EROFS:
    case EACCES:
    case EPERM: return Errc::read_only;
    case ENOENT: return Errc::not_found;
    default: return Errc::io;
  }
}

Error failed(std::string_view operation, const Path& path, int error_number) {
  return fail(code_of(error_number), "cannot " + std::string(operation) + " " + path.string() + ": " +
                                         std::generic_category().message(error_number));
}

// System calls need a name for the current directory, which an empty path means.
const Path& named(const Path& directory) {
  static const Path here = ".";
  return directory.empty() ? here : directory;
}

// A signal may interrupt a system call, which then fails with EINTR and has done nothing. The loops here and
// below call it again.
Descriptor open_descriptor(const Path& path, int flags) {
  for (;;) {
    const int number = ::open(path.c_str(), flags | O_CLOEXEC, file_mode);
    if (number >= 0 || errno != EINTR) return Descriptor(number);
  }
}

Result<void> write_all(const Descriptor& descriptor, const Path& path, std::uint64_t offset,
                       std::span<const std::byte> bytes) {
  // The system may write a part only, for example up to the end of the disk's space. The next call then gives
  // the error.
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", path, errno);
    // A write that writes nothing and reports no error would make this loop endless.
    if (written == 0) return failed("write", path, EIO);
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

class PosixFile final : public File {
 public:
  PosixFile(Descriptor descriptor, Path path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return write_all(descriptor_, path_, offset, bytes);
  }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    std::size_t total = 0;
    while (total < into.size()) {
      const ssize_t count = ::pread(descriptor_.number(), into.data() + total, into.size() - total,
                                    static_cast<off_t>(offset + total));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed("read", path_, errno);
      if (count == 0) break;
      total += static_cast<std::size_t>(count);
    }
    return total;
  }

  Result<std::uint64_t> size() override {
    struct stat status {};
    if (::fstat(descriptor_.number(), &status) != 0) return failed("ask the size of", path_, errno);
    return static_cast<std::uint64_t>(status.st_size);
  }

  Result<std::vector<DataRange>> data_ranges() override {
    const auto bytes = size();
    if (!bytes) return bytes.error();
    std::vector<DataRange> ranges;
    for (std::uint64_t at = 0; at < *bytes;) {
      const off_t begin = ::lseek(descriptor_.number(), static_cast<off_t>(at), SEEK_DATA);
      if (begin < 0 && errno == ENXIO) break;
      const off_t end = begin < 0 ? begin : ::lseek(descriptor_.number(), begin, SEEK_HOLE);
      // Not every file system can tell. And the file may change between the two calls. Then all of it counts
      // as data, which is never wrong.
      if (end <= begin) return std::vector{DataRange{.begin = 0, .end = *bytes}};
      at = std::min(static_cast<std::uint64_t>(end), *bytes);
      if (static_cast<std::uint64_t>(begin) < at)
        ranges.push_back({.begin = static_cast<std::uint64_t>(begin), .end = at});
    }
    return ranges;
  }

  Result<void> write_back(std::uint64_t offset, std::uint64_t byte_count) override {
    if (auto done = sync_range(on_its_way_, SYNC_FILE_RANGE_WAIT_BEFORE); !done) return done;
    on_its_way_ = {.offset = offset, .byte_count = byte_count};
    return sync_range(on_its_way_, SYNC_FILE_RANGE_WRITE);
  }

  // fdatasync() suffices: it may lose the time of the last change, but not the size.
  Result<void> sync() override {
    while (::fdatasync(descriptor_.number()) != 0) {
      if (errno != EINTR) return failed("sync", path_, errno);
    }
    return {};
  }

 private:
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
  };

  // If the system has no such call, sync() does all the work. Any other error is returned: the system reports
  // an error of the disk only once, so sync() would not see it again.
  Result<void> sync_range(const Range& range, unsigned int flags) {
    if (range.byte_count == 0) return {};
    while (::sync_file_range(descriptor_.number(), static_cast<off_t>(range.offset),
                             static_cast<off_t>(range.byte_count), flags) != 0) {
      if (errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == ESPIPE) return {};
      if (errno != EINTR) return failed("sync", path_, errno);
    }
    return {};
  }

  Descriptor descriptor_;
  Path path_;
  Range on_its_way_;
};

// Takes the space of a new file. ext4, XFS, tmpfs and others have a call for that; elsewhere zeros are
// written. Without its space the file would have holes. A store into a hole on a full disk ends the process
// (SIGBUS), because a store cannot report an error.
Result<void> allocate(const Descriptor& descriptor, const Path& path, std::uint64_t byte_count) {
  for (;;) {
    if (::fallocate(descriptor.number(), 0, 0, static_cast<off_t>(byte_count)) == 0) return {};
    if (errno == EOPNOTSUPP || errno == ENOSYS) break;
    if (errno != EINTR) return failed("take the space of", path, errno);
  }
  const std::vector<std::byte> zeros(std::min(byte_count, zeros_bytes));
  for (std::uint64_t at = 0; at < byte_count; at += zeros.size()) {
    const auto piece = std::span(zeros).first(std::min<std::uint64_t>(zeros.size(), byte_count - at));
    if (auto written = write_all(descriptor, path, at, piece); !written) return written;
  }
  return {};
}

class PosixMappedFile final : public MappedFile {
 public:
  // `identity` is that of the file. The descriptor is not kept, because descriptors may be few.
  PosixMappedFile(Path path, const struct stat& identity, std::span<std::byte> bytes)
      : path_(std::move(path)), device_(identity.st_dev), number_(identity.st_ino), bytes_(bytes) {}
  ~PosixMappedFile() override { ::munmap(bytes_.data(), bytes_.size()); }
  PosixMappedFile(const PosixMappedFile&) = delete;
  PosixMappedFile& operator=(const PosixMappedFile&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() override { return bytes_; }
  [[nodiscard]] std::uint64_t page_bytes() const override { return system_page_bytes(); }

  // On Linux, msync() is an fdatasync() of a range: it writes the pages and the data that is needed to find
  // them, makes the disk empty its cache, and also reports an earlier failed write of any page. Whole pages
  // are dropped from the mapping first, because they are not stored into again; their contents stay in the
  // system's cache. For a page that stays mapped, each write to the disk has to be told to every core, page
  // by page.
  Result<void> sync(std::uint64_t offset, std::uint64_t byte_count) override {
    const auto pages = pages_of(offset, byte_count);
    const std::size_t whole_bytes = pages.size() / system_page_bytes() * system_page_bytes();
    // If this fails, the sync only costs more.
    static_cast<void>(::madvise(pages.data(), whole_bytes, MADV_DONTNEED));
    while (::msync(pages.data(), pages.size(), MS_SYNC) != 0) {
      if (errno != EINTR) return failed("sync", path_, errno);
    }
    struct stat status {};
    // The sync of a removed file succeeds, but no start would find the file. So its name is checked here.
    const bool there = ::stat(path_.c_str(), &status) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR) return failed("look at", path_, errno);
    if (!there || status.st_dev != device_ || status.st_ino != number_)
      return fail(Errc::not_found, path_.string() + " was removed while in use");
    return {};
  }

  // Kernels before 5.14 cannot do this; there the first store into a page gets it. So an error is ignored.
  // The range is prepared in pieces, because threads that map or unmap memory wait for each call.
  void prepare(std::uint64_t offset, std::uint64_t byte_count) override {
#ifdef MADV_POPULATE_WRITE
    const auto pages = pages_of(offset, byte_count);
    for (std::size_t at = 0; at < pages.size(); at += populated_bytes) {
      const auto piece = pages.subspan(at, std::min(populated_bytes, pages.size() - at));
      if (::madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) != 0) return;
    }
#else
    static_cast<void>(offset);
    static_cast<void>(byte_count);
#endif
  }

 private:
  static std::uint64_t system_page_bytes() {
    static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return page_bytes;
  }

  // madvise() and msync() take an address at the beginning of a page, and any length.
  [[nodiscard]] std::span<std::byte> pages_of(std::uint64_t offset, std::uint64_t byte_count) const {
    const std::uint64_t from = offset / system_page_bytes() * system_page_bytes();
    return bytes_.subspan(static_cast<std::size_t>(from),
                          static_cast<std::size_t>(offset + byte_count - from));
  }

  Path path_;
  dev_t device_;
  ino_t number_;
  std::span<std::byte> bytes_;
};

class PosixLock final : public DirectoryLock {
 public:
  PosixLock(Descriptor directory, Descriptor file, Path path)
      : directory_(std::move(directory)), file_(std::move(file)), path_(std::move(path)) {}

  Result<void> note(std::string_view lines) override {
    const std::string text = std::to_string(::getpid()) + "\n" + std::string(lines);
    if (::ftruncate(file_.number(), 0) != 0) return failed("write", path_, errno);
    const ssize_t count = ::pwrite(file_.number(), text.data(), text.size(), 0);
    if (count < 0) return failed("write", path_, errno);
    // Only a disk without room for the rest makes the system write a part.
    if (static_cast<std::size_t>(count) < text.size()) return failed("write", path_, ENOSPC);
    return {};
  }

 private:
  // The flock ends when the last descriptor is closed. The lock file stays, because removing it would be a
  // race.
  Descriptor directory_;
  Descriptor file_;
  Path path_;
};

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

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "folder";
  if (S_ISFIFO(mode)) return "pipe";
  if (S_ISSOCK(mode)) return "socket";
  return "device";
}

Error not_regular(std::string_view operation, const Path& path, std::string_view kind) {
  return fail(Errc::io, "cannot " + std::string(operation) + " " + path.string() +
                            ": it is not a regular file but a " + std::string(kind));
}

// Opens a regular file. O_NONBLOCK keeps open() from waiting for the other end of a pipe or a device; it does
// nothing to a regular file. Once it is open, the descriptor is asked for the kind, because the name may get
// another file meanwhile.
Result<Descriptor> open_regular(std::string_view operation, const Path& path, int flags) {
  Descriptor descriptor = open_descriptor(path, flags | O_NONBLOCK);
  const int error_number = descriptor.is_open() ? 0 : errno;
  struct stat status {};
  // For a pipe without a reader, a folder and a socket, open() itself fails without a clear reason. lstat()
  // gives it.
  const bool known = descriptor.is_open() ? ::fstat(descriptor.number(), &status) == 0
                                          : ::lstat(path.c_str(), &status) == 0 && !S_ISLNK(status.st_mode);
  if (known && !S_ISREG(status.st_mode)) return not_regular(operation, path, kind_of(status.st_mode));
  // The name is there. So this is not the error of a file that is not.
  if (error_number == ENOENT && S_ISLNK(status.st_mode))
    return fail(Errc::io, "cannot " + std::string(operation) + " " + path.string() +
                              ": it is a link to a file that is not there");
  if (!descriptor.is_open()) return failed(operation, path, error_number);
  if (!known) return failed("look at", path, errno);
  return descriptor;
}

class PosixDisk final : public Disk {
 public:
  Result<std::unique_ptr<File>> create(const Path& path) override {
    return file_of(open_regular("create", path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW), path);
  }

  Result<AsideFile> create_aside(const Path& target) override {
    for (;;) {
      std::uint64_t number = 0;
      if (::getrandom(&number, sizeof number, 0) != sizeof number)
        return fail(Errc::io, "cannot draw a name for a file beside " + target.string());
      const Path path = target.parent_path() / aside_name(number);
      Descriptor descriptor = open_descriptor(path, O_WRONLY | O_CREAT | O_EXCL);
      // O_EXCL also refuses a symbolic link, so no file elsewhere is written through the name.
      if (!descriptor.is_open() && errno == EEXIST) continue;
      if (!descriptor.is_open()) return failed("create", path, errno);
      return AsideFile{.path = path, .file = std::make_unique<PosixFile>(std::move(descriptor), path)};
    }
  }

  Result<std::unique_ptr<File>> open(const Path& path) override {
    return file_of(open_regular("open", path, O_RDONLY), path);
  }

  Result<std::unique_ptr<File>> open_plain(const Path& path) override {
    auto descriptor = open_regular("open", path, O_RDONLY | O_NOFOLLOW);
    // The look at the name only improves the message. What is refused is decided by open().
    std::error_code unknown;
    if (!descriptor && std::filesystem::is_symlink(path, unknown))
      return fail(Errc::io, "cannot open " + path.string() + ": it is a symbolic link");
    return file_of(std::move(descriptor), path);
  }

  Result<std::unique_ptr<MappedFile>> create_mapped(const Path& path, std::uint64_t byte_count) override {
    Descriptor descriptor = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL);
    if (!descriptor.is_open()) return failed("create", path, errno);
    auto mapped = map(descriptor, path, byte_count);
    // The file has taken a part of the space, which a full disk needs for other things.
    if (!mapped) ::unlink(path.c_str());
    return mapped;
  }

  Result<void> make_directory(const Path& path) override {
    if (::mkdir(path.c_str(), directory_mode) == 0) return {};
    // Kept, because the calls below change errno.
    const int error_number = errno;
    if (error_number != EEXIST) return failed("create the directory", path, error_number);
    std::error_code code;
    if (std::filesystem::is_directory(path, code)) return {};
    if (code) return failed("create the directory", path, code.value());
    return fail(Errc::io, "cannot create the directory " + path.string() + ": it is a file, no folder");
  }

  Result<std::vector<std::string>> list(const Path& directory) override {
    std::vector<std::string> names;
    std::error_code code;
    std::filesystem::directory_iterator at(named(directory), code);
    while (!code && at != std::filesystem::directory_iterator()) {
      names.push_back(at->path().filename().string());
      at.increment(code);
    }
    if (code) return failed("list", named(directory), code.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<bool> exists(const Path& path) override {
    std::error_code code;
    const auto status = std::filesystem::status(named(path), code);
    if (status.type() == std::filesystem::file_type::not_found) return false;
    if (code) return failed("look at", path, code.value());
    return true;
  }

  Result<void> rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return failed("rename to " + to.string() + " the file", from, errno);
  }

  Result<void> link(const Path& from, const Path& to) override {
    if (::link(from.c_str(), to.c_str()) == 0) return {};
    return failed("link to " + to.string() + " the file", from, errno);
  }

  Result<void> remove(const Path& path) override {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return failed("remove", path, errno);
  }

  Result<void> release(const Path& path, std::uint64_t offset) override {
    const Descriptor descriptor = open_descriptor(path, O_WRONLY);
    struct stat status {};
    if (!descriptor.is_open()) return failed("open", path, errno);
    if (::fstat(descriptor.number(), &status) != 0) return failed("look at", path, errno);
    const off_t length = status.st_size - static_cast<off_t>(offset);
    if (length <= 0) return {};
    while (::fallocate(descriptor.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(offset), length) != 0) {
      if (errno != EINTR) return failed("give back space of", path, errno);
    }
    return {};
  }

  Result<std::uint64_t> free_bytes(const Path& path) override {
    struct statvfs status {};
    while (::statvfs(named(path).c_str(), &status) != 0) {
      if (errno != EINTR) return failed("ask for the free space at", path, errno);
    }
    // Not f_bfree, which includes the blocks that only root may take.
    return std::uint64_t{status.f_bavail} * status.f_frsize;
  }

  Result<void> remove_tree(const Path& directory) override {
    std::error_code code;
    std::filesystem::remove_all(directory, code);
    if (code) return failed("remove the directory", directory, code.value());
    return {};
  }

  // A sync of a file does not make its name durable. Only a sync of the directory does.
  Result<void> sync_directory(const Path& directory) override {
    const Descriptor descriptor = open_descriptor(named(directory), O_RDONLY | O_DIRECTORY);
    if (!descriptor.is_open()) return failed("open the directory", named(directory), errno);
    while (::fsync(descriptor.number()) != 0) {
      if (errno != EINTR) return failed("sync the directory", named(directory), errno);
    }
    return {};
  }

  Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) override {
    // Locks the directory as well, because the lock file can be removed while it is locked, and made anew. On
    // a file system that cannot lock a directory (NFS), only the file is locked.
    const Path parent = named(path.parent_path());
    Descriptor directory = open_descriptor(parent, O_RDONLY | O_DIRECTORY);
    if (!directory.is_open()) return failed("open the directory", parent, errno);
    const auto directory_locked = try_lock(directory, parent);
    if (directory_locked && !*directory_locked)
      return held_by_another(path, open_descriptor(path, O_RDONLY | O_NONBLOCK));
    // Not emptied before it is locked: the lines in it belong to the process that holds the lock.
    auto opened = open_regular("open the lock file", path, O_RDWR | O_CREAT);
    if (!opened) return opened.error();
    Descriptor& descriptor = *opened;
    const auto locked = try_lock(descriptor, path);
    if (!locked) return locked.error();
    if (!*locked) return held_by_another(path, descriptor);
    auto held = std::make_unique<PosixLock>(std::move(directory), std::move(descriptor), path);
    // The process id only serves the message above. So a failed write is ignored: a full disk must not keep a
    // server from starting.
    static_cast<void>(held->note({}));
    return std::unique_ptr<DirectoryLock>(std::move(held));
  }

  Result<bool> is_locked(const Path& path) override {
    auto file = held_by_any(path, O_RDONLY | O_NONBLOCK);
    if (file ? *file : file.error().code != Errc::not_found) return file;
    // The file may have been removed while it is locked. Where a directory cannot be locked, the file is all
    // that a daemon has locked.
    auto directory = held_by_any(named(path.parent_path()), O_RDONLY | O_DIRECTORY);
    return directory || !file ? directory : file;
  }

 private:
  static Result<std::unique_ptr<MappedFile>> map(const Descriptor& descriptor, const Path& path,
                                                 std::uint64_t byte_count) {
    // Before the file is mapped: a store into a page behind the end of a file ends the process, too.
    if (auto allocated = allocate(descriptor, path, byte_count); !allocated) return allocated.error();
    struct stat identity {};
    if (::fstat(descriptor.number(), &identity) != 0) return failed("look at", path, errno);
    const auto size = static_cast<std::size_t>(byte_count);
    void* const bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.number(), 0);
    if (bytes == MAP_FAILED) return failed("map", path, errno);
    // MADV_RANDOM turns reading ahead off. Nothing is read here. Reading ahead would join pages of the file
    // into one big piece, which the system writes, and closes to stores, as a whole.
    static_cast<void>(::madvise(bytes, size, MADV_RANDOM));
    return std::unique_ptr<MappedFile>(
        std::make_unique<PosixMappedFile>(path, identity, std::span(static_cast<std::byte*>(bytes), size)));
  }

  static Result<std::unique_ptr<File>> file_of(Result<Descriptor> descriptor, const Path& path) {
    if (!descriptor) return descriptor.error();
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(*descriptor), path));
  }
};

}  // namespace

std::unique_ptr<Disk> make_posix_disk() {
  return std::make_unique<PosixDisk>();
}

}  // namespace sepal::storage
