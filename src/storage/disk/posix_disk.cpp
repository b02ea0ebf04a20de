// The disk of a POSIX system. Every error names the operation that failed, the path, and the system's reason.
#include <sepal/base/descriptor.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>

#include "storage/disk/posix_calls.hpp"
#include "storage/disk/posix_locks.hpp"

namespace sepal::storage {
namespace {

constexpr mode_t directory_mode = 0750;

constexpr std::uint64_t zeros_bytes = std::uint64_t{1} << 20;    // written in one go
constexpr std::size_t populated_bytes = std::size_t{256} << 10;  // in one go

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
    if (errno != EINTR) return failed("reserve disk space for", path, errno);
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
  PosixMappedFile(std::shared_ptr<PosixLocks> locks, Path path, const struct stat& identity,
                  std::span<std::byte> bytes)
      : locks_(std::move(locks)),
        path_(std::move(path)),
        device_(identity.st_dev),
        number_(identity.st_ino),
        bytes_(bytes) {}
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
    if (there && status.st_dev == device_ && status.st_ino == number_) return {};
    if (auto checked = locks_->check(path_); !checked) return checked;
    return fail(Errc::not_found, path_.string() + " was removed while in use");
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

  std::shared_ptr<PosixLocks> locks_;
  Path path_;
  dev_t device_;
  ino_t number_;
  std::span<std::byte> bytes_;
};

class PosixDisk final : public Disk {
 public:
  Result<std::unique_ptr<File>> create(const Path& path) override {
    if (auto checked = locks_->check(path); !checked) return checked.error();
    return file_of(open_regular("create", path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW), path);
  }

  Result<AsideFile> create_aside(const Path& target) override {
    if (auto checked = locks_->check(target); !checked) return checked.error();
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
    if (auto checked = locks_->check(path); !checked) return checked.error();
    return file_of(open_regular("open", path, O_RDONLY), path);
  }

  Result<std::unique_ptr<File>> open_plain(const Path& path) override {
    if (auto checked = locks_->check(path); !checked) return checked.error();
    auto descriptor = open_regular("open", path, O_RDONLY | O_NOFOLLOW);
    // The look at the name only improves the message. What is refused is decided by open().
    std::error_code unknown;
    if (!descriptor && std::filesystem::is_symlink(path, unknown))
      return fail(Errc::io, "cannot open " + path.string() + ": it is a symbolic link");
    return file_of(std::move(descriptor), path);
  }

  Result<std::unique_ptr<MappedFile>> create_mapped(const Path& path, std::uint64_t byte_count) override {
    if (auto checked = locks_->check(path); !checked) return checked.error();
    Descriptor descriptor = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL);
    if (!descriptor.is_open()) return failed("create", path, errno);
    auto mapped = map(descriptor, path, byte_count);
    // The file has taken a part of the space, which a full disk needs for other things.
    if (!mapped) ::unlink(path.c_str());
    return mapped;
  }

  Result<void> make_directory(const Path& path) override {
    if (auto checked = locks_->check(path); !checked) return checked.error();
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
    if (auto checked = locks_->check(directory); !checked) return checked.error();
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
    if (auto checked = locks_->check(to); !checked) return checked.error();
    if (auto checked = locks_->check(from); !checked) return checked.error();
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return failed("rename to " + to.string() + " the file", from, errno);
  }

  Result<void> link(const Path& from, const Path& to) override {
    if (auto checked = locks_->check(to); !checked) return checked.error();
    if (auto checked = locks_->check(from); !checked) return checked.error();
    if (::link(from.c_str(), to.c_str()) == 0) return {};
    return failed("link to " + to.string() + " the file", from, errno);
  }

  Result<void> remove(const Path& path) override {
    if (auto checked = locks_->check(path); !checked) return checked.error();
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return failed("remove", path, errno);
  }

  Result<void> release(const Path& path, std::uint64_t offset) override {
    if (auto checked = locks_->check(path); !checked) return checked.error();
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
    if (auto checked = locks_->check(directory); !checked) return checked.error();
    std::error_code code;
    std::filesystem::remove_all(directory, code);
    if (code) return failed("remove the directory", directory, code.value());
    return {};
  }

  // A sync of a file does not make its name durable. Only a sync of the directory does.
  Result<void> sync_directory(const Path& directory) override {
    if (auto checked = locks_->check(directory); !checked) return checked.error();
    const Descriptor descriptor = open_descriptor(named(directory), O_RDONLY | O_DIRECTORY);
    if (!descriptor.is_open()) return failed("open the directory", named(directory), errno);
    while (::fsync(descriptor.number()) != 0) {
      if (errno != EINTR) return failed("sync the directory", named(directory), errno);
    }
    return {};
  }

  Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) override { return locks_->lock(path); }
  Result<bool> is_locked(const Path& path) override { return is_locked_by_any(path); }

 private:
  Result<std::unique_ptr<MappedFile>> map(const Descriptor& descriptor, const Path& path,
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
    return std::unique_ptr<MappedFile>(std::make_unique<PosixMappedFile>(
        locks_, path, identity, std::span(static_cast<std::byte*>(bytes), size)));
  }

  static Result<std::unique_ptr<File>> file_of(Result<Descriptor> descriptor, const Path& path) {
    if (!descriptor) return descriptor.error();
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(*descriptor), path));
  }

  // Shared with the mapped files, which may outlive the disk.
  const std::shared_ptr<PosixLocks> locks_ = std::make_shared<PosixLocks>();
};

}  // namespace

std::unique_ptr<Disk> make_posix_disk() {
  return std::make_unique<PosixDisk>();
}

}  // namespace sepal::storage
