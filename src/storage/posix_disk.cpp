// The disk of a POSIX system. Every error says which operation failed, on which path, and what the system
// said.
#include <sepal/storage/disk.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace sepal::storage {
namespace {

// Readable by the group, so that a backup need not run as the daemon's user; by nobody else, for keys may
// tell.
constexpr mode_t file_mode = 0640;
constexpr mode_t directory_mode = 0750;

constexpr std::uint64_t zeros_bytes = std::uint64_t{1} << 20;    // written at once
constexpr std::size_t populated_bytes = std::size_t{256} << 10;  // at once

Errc code_of(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return Errc::disk_full;
    case EROFS:
    case EACCES:
    case EPERM:
      return Errc::read_only;
    case ENOENT:
      return Errc::not_found;
    default:
      return Errc::io;
  }
}

Error failed(std::string_view operation, const Path& path, int error_number) {
  return fail(code_of(error_number), "cannot " + std::string(operation) + " " + path.string() + ": " +
                                         std::generic_category().message(error_number));
}

// The directory that an empty path means to the system calls that need a name.
const Path& named(const Path& directory) {
  static const Path here = ".";
  return directory.empty() ? here : directory;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  // What matters was synced before; an error of close() could only be about what did not.
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] bool valid() const { return number_ >= 0; }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

Descriptor open_descriptor(const Path& path, int flags) {
  for (;;) {
    const int number = ::open(path.c_str(), flags | O_CLOEXEC, file_mode);
    if (number >= 0 || errno != EINTR) return Descriptor(number);
  }
}

Result<void> write_all(const Descriptor& descriptor, const Path& path, std::uint64_t offset,
                       std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write", path, errno);
    // A write of nothing without an error would loop for ever.
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
      const ssize_t count = ::pread(descriptor_.get(), into.data() + total, into.size() - total,
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
    if (::fstat(descriptor_.get(), &status) != 0) return failed("ask the size of", path_, errno);
    return static_cast<std::uint64_t>(status.st_size);
  }

  Result<std::vector<DataRange>> data_ranges() override {
    const auto bytes = size();
    if (!bytes) return bytes.error();
    std::vector<DataRange> ranges;
    for (std::uint64_t at = 0; at < *bytes;) {
      const off_t begin = ::lseek(descriptor_.get(), static_cast<off_t>(at), SEEK_DATA);
      if (begin < 0 && errno == ENXIO) break;
      const off_t end = begin < 0 ? begin : ::lseek(descriptor_.get(), begin, SEEK_HOLE);
      // Not every system can tell.
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

  // fdatasync: the time of the last change may be lost, the size may not.
  Result<void> sync() override {
    while (::fdatasync(descriptor_.get()) != 0) {
      if (errno != EINTR) return failed("sync", path_, errno);
    }
    return {};
  }

 private:
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
  };

  // Where the system has no such call, sync() does it all. An error of the disk is reported once, and sync()
  // would not hear of it again.
  Result<void> sync_range(const Range& range, unsigned int flags) {
    if (range.byte_count == 0) return {};
    while (::sync_file_range(descriptor_.get(), static_cast<off_t>(range.offset),
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

// Takes the space of a new file. ext4, XFS, tmpfs and others do it at once; where the system cannot, zeros
// are written.
Result<void> allocate(const Descriptor& descriptor, const Path& path, std::uint64_t byte_count) {
  for (;;) {
    if (::fallocate(descriptor.get(), 0, 0, static_cast<off_t>(byte_count)) == 0) return {};
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
  // `identity` is that of the file: its descriptor is not kept, there may be few of them.
  PosixMappedFile(Path path, const struct stat& identity, std::span<std::byte> bytes)
      : path_(std::move(path)), device_(identity.st_dev), number_(identity.st_ino), bytes_(bytes) {}
  ~PosixMappedFile() override { ::munmap(bytes_.data(), bytes_.size()); }
  PosixMappedFile(const PosixMappedFile&) = delete;
  PosixMappedFile& operator=(const PosixMappedFile&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() override { return bytes_; }
  [[nodiscard]] std::uint64_t page_bytes() const override { return system_page_bytes(); }

  // msync() of Linux is fdatasync() of a range: it writes the pages and what is needed to find them, has the
  // disk empty its cache, and reports as well that an earlier write of any page by the system went wrong.
  // Whole pages are left to the system's cache before, as they are not stored into again: of a page that is
  // mapped, each write to the disk has to be told to every core, page by page.
  Result<void> sync(std::uint64_t offset, std::uint64_t byte_count) override {
    const auto pages = pages_of(offset, byte_count);
    const std::size_t whole_bytes = pages.size() / system_page_bytes() * system_page_bytes();
    static_cast<void>(::madvise(pages.data(), whole_bytes, MADV_DONTNEED));
    while (::msync(pages.data(), pages.size(), MS_SYNC) != 0) {
      if (errno != EINTR) return failed("sync", path_, errno);
    }
    struct stat status {};
    const bool there = ::stat(path_.c_str(), &status) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR) return failed("look at", path_, errno);
    if (!there || status.st_dev != device_ || status.st_ino != number_)
      return fail(Errc::not_found, path_.string() + " was removed while in use");
    return {};
  }

  // A kernel before 5.14 does not know how; then the pages are had when they are stored into. In pieces: who
  // maps or unmaps memory waits for each.
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
  explicit PosixLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  Descriptor descriptor_;  // flock ends with the last descriptor; the file stays, removing it would be a race
};

// The process id that a lock file holds, or nothing readable.
std::string holder_of(const Descriptor& lock_file) {
  std::array<char, 24> text{};
  const ssize_t count = ::pread(lock_file.get(), text.data(), text.size(), 0);
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

Error not_regular(const std::string& operation, const Path& path) {
  return fail(Errc::io, "cannot " + operation + " " + path.string() + ": it is not a regular file");
}

class PosixDisk final : public Disk {
 public:
  // Without a wait for the other end of a pipe.
  Result<std::unique_ptr<File>> create(const Path& path) override {
    Descriptor descriptor = open_descriptor(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK);
    // Of a pipe that nobody reads.
    if (!descriptor.valid() && errno == ENXIO) return not_regular("create", path);
    struct stat status {};
    if (descriptor.valid() && ::fstat(descriptor.get(), &status) != 0) return failed("look at", path, errno);
    if (descriptor.valid() && S_ISFIFO(status.st_mode)) return not_regular("create", path);
    return file_of(std::move(descriptor), "create", path);
  }

  Result<std::unique_ptr<File>> open(const Path& path) override {
    return file_of(open_descriptor(path, O_RDONLY), "open", path);
  }

  // Without a wait for the other end of a pipe.
  Result<std::unique_ptr<File>> open_plain(const Path& path) override {
    Descriptor descriptor = open_descriptor(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (!descriptor.valid() && errno == ELOOP)
      return fail(Errc::io, "cannot open " + path.string() + ": it is a symbolic link");
    struct stat status {};
    if (descriptor.valid() && ::fstat(descriptor.get(), &status) != 0) return failed("look at", path, errno);
    if (descriptor.valid() && !S_ISREG(status.st_mode)) return not_regular("open", path);
    return file_of(std::move(descriptor), "open", path);
  }

  Result<std::unique_ptr<MappedFile>> create_mapped(const Path& path, std::uint64_t byte_count) override {
    Descriptor descriptor = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL);
    if (!descriptor.valid()) return failed("create", path, errno);
    auto mapped = map(descriptor, path, byte_count);
    if (!mapped) ::unlink(path.c_str());
    return mapped;
  }

  Result<void> make_directory(const Path& path) override {
    if (::mkdir(path.c_str(), directory_mode) == 0) return {};
    const int error_number = errno;
    if (error_number != EEXIST) return failed("create the directory", path, error_number);
    std::error_code code;
    if (std::filesystem::is_directory(path, code)) return {};
    return failed("create the directory", path, code ? code.value() : ENOTDIR);
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

  Result<void> remove_tree(const Path& directory) override {
    std::error_code code;
    std::filesystem::remove_all(directory, code);
    if (code) return failed("remove the directory", directory, code.value());
    return {};
  }

  Result<void> sync_directory(const Path& directory) override {
    const Descriptor descriptor = open_descriptor(named(directory), O_RDONLY | O_DIRECTORY);
    if (!descriptor.valid()) return failed("open the directory", named(directory), errno);
    while (::fsync(descriptor.get()) != 0) {
      if (errno != EINTR) return failed("sync the directory", named(directory), errno);
    }
    return {};
  }

  Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) override {
    Descriptor descriptor = open_descriptor(path, O_RDWR | O_CREAT);
    if (!descriptor.valid()) return failed("open the lock file", path, errno);
    while (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return held_by_another(path, descriptor);
      if (errno != EINTR) return failed("lock", path, errno);
    }
    // The number serves the message above and nothing else: a full disk must not keep a server from starting.
    const std::string holder = std::to_string(::getpid()) + "\n";
    const bool noted = ::ftruncate(descriptor.get(), 0) == 0 &&
                       ::pwrite(descriptor.get(), holder.data(), holder.size(), 0) > 0;
    static_cast<void>(noted);
    return std::unique_ptr<DirectoryLock>(std::make_unique<PosixLock>(std::move(descriptor)));
  }

 private:
  static Result<std::unique_ptr<MappedFile>> map(const Descriptor& descriptor, const Path& path,
                                                 std::uint64_t byte_count) {
    if (auto allocated = allocate(descriptor, path, byte_count); !allocated) return allocated.error();
    struct stat identity {};
    if (::fstat(descriptor.get(), &identity) != 0) return failed("look at", path, errno);
    const auto size = static_cast<std::size_t>(byte_count);
    void* const bytes = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (bytes == MAP_FAILED) return failed("map", path, errno);
    // Nothing is read, and reading ahead would make pages of a file one big piece, which is written, and then
    // closed to stores, as a whole.
    static_cast<void>(::madvise(bytes, size, MADV_RANDOM));
    return std::unique_ptr<MappedFile>(
        std::make_unique<PosixMappedFile>(path, identity, std::span(static_cast<std::byte*>(bytes), size)));
  }

  static Result<std::unique_ptr<File>> file_of(Descriptor descriptor, std::string_view operation,
                                               const Path& path) {
    if (!descriptor.valid()) return failed(operation, path, errno);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(descriptor), path));
  }
};

}  // namespace

std::unique_ptr<Disk> make_posix_disk() {
  return std::make_unique<PosixDisk>();
}

}  // namespace sepal::storage
