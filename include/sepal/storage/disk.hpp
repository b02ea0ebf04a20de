// The disk seam: everything that storage does to a file system, so that a test can decide what a disk does.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sepal::storage {

using Path = std::filesystem::path;

// Of a file, in bytes; the end is behind the last.
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const DataRange&, const DataRange&) = default;
};

// Confined, but for reading: several threads may read at once. Closed when destroyed. Blocks. Errors of all
// members: io, disk_full, read_only.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `bytes` at `offset`.
  virtual Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Reads up to into.size() bytes; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual Result<std::uint64_t> size() = 0;
  // Where anything but zeros may be: in order, none empty, not beyond the size. To read what was never
  // written takes as much time and memory as to read anything else, and makes data of it, and of what is read
  // ahead behind it, in the system's eyes: so ask before. A system that does not know says all.
  virtual Result<std::vector<DataRange>> data_ranges() = 0;
  // Sends these bytes on their way to the disk, after those of the call before have arrived there: so sync()
  // has little left to do, and others who sync do not wait behind all of a large file. Promises nothing.
  virtual Result<void> write_back(std::uint64_t offset, std::uint64_t byte_count) = 0;
  virtual Result<void> sync() = 0;  // contents and size survive power loss
};

// A file of a fixed size whose bytes are memory, for a log that is written without a system call. What is
// stored has left the process at once; it survives power loss after sync(). Synchronised, but for the bytes.
// Unmapped when destroyed, without a sync.
//
// The first store into a page, or the first after it was written to the disk, may wait for the file system.
// So whoever must not wait has the pages prepared ahead, and leaves a page alone once it is synced.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() = 0;  // zeros at first
  [[nodiscard]] virtual std::uint64_t page_bytes() const = 0;
  // What is stored in the range survives power loss, as do the size and the space of the file. Blocks.
  // Errors: io, disk_full, read_only; not_found where the name is gone. After an error nothing is known of
  // what was stored since the last sync, and another sync of it that succeeds says nothing: the system may
  // have dropped it.
  virtual Result<void> sync(std::uint64_t offset, std::uint64_t byte_count) = 0;
  // Has the pages of the range ready to be stored into, where the system can. Changes nothing. Blocks.
  virtual void prepare(std::uint64_t offset, std::uint64_t byte_count) = 0;
};

// Holds an exclusive lock on a path until destroyed; also released when the process dies.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

// Synchronised. Blocks. Errors where nothing else is said: io, disk_full, read_only, not_found.
class Disk {
 public:
  virtual ~Disk() = default;
  // New and empty; an old one is replaced. Errors: io also where a pipe or a symbolic link has the name.
  virtual Result<std::unique_ptr<File>> create(const Path& path) = 0;
  virtual Result<std::unique_ptr<File>> open(const Path& path) = 0;  // for reading
  // The same of a regular file, and not where the path ends in a symbolic link: for names that a client gave.
  // Errors: io where it is anything else.
  virtual Result<std::unique_ptr<File>> open_plain(const Path& path) = 0;
  // A new file whose space is taken, so that storing into it cannot fail for lack of it. Errors: io also
  // where the name is taken. After an error nothing is left of it, as far as that can be had.
  virtual Result<std::unique_ptr<MappedFile>> create_mapped(const Path& path, std::uint64_t byte_count) = 0;
  virtual Result<void> make_directory(const Path& path) = 0;                 // fine when it is there
  virtual Result<std::vector<std::string>> list(const Path& directory) = 0;  // names, sorted
  virtual Result<bool> exists(const Path& path) = 0;
  virtual Result<void> rename(const Path& from, const Path& to) = 0;  // replaces `to` atomically
  // A second name for a file, which must not be there yet. Errors also: io where there can be none.
  virtual Result<void> link(const Path& from, const Path& to) = 0;
  virtual Result<void> remove(const Path& path) = 0;               // a file; fine when it is not there
  virtual Result<void> remove_tree(const Path& directory) = 0;     // fine when it is not there
  virtual Result<void> sync_directory(const Path& directory) = 0;  // names in it survive power loss
  // Errors: in_use, with what holds it where known.
  virtual Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) = 0;
};

// The real one.
[[nodiscard]] std::unique_ptr<Disk> make_posix_disk();

// Once this succeeds the new contents survive power loss. If only the directory sync fails, either version
// may be found after a crash; on any earlier failure the old one is untouched. Blocks.
Result<void> replace_file(Disk& disk, const Path& target, std::span<const std::byte> contents);

}  // namespace sepal::storage
