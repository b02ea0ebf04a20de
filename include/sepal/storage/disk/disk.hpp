// The disk seam: everything that storage does to a file system goes through here, so a test decides what a
// disk does.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::storage {

using Path = std::filesystem::path;

// A range of a file, in bytes; `end` is behind the last byte.
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const DataRange&, const DataRange&) = default;
};

// Confined, except for reading: several threads may read at once. Closed when destroyed. Blocks. Errors of
// all members: io, disk_full, read_only.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `bytes` at `offset`.
  virtual Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Reads up to into.size() bytes; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual Result<std::uint64_t> size() = 0;
  // The ranges in which bytes other than zeros may stand: in order, none empty, none beyond the size. Ask
  // before reading. To read bytes that were never written takes as much time and memory as to read any
  // others, and the system then counts them, and what it reads ahead behind them, as data. A system that does
  // not know the ranges gives the whole file.
  virtual Result<std::vector<DataRange>> data_ranges() = 0;
  // First waits until the disk has the previous call's bytes. Then starts to write these. So sync() has
  // little left to do, and the syncs of other threads do not wait behind all of a large file. Promises
  // nothing.
  virtual Result<void> write_back(std::uint64_t offset, std::uint64_t byte_count) = 0;
  virtual Result<void> sync() = 0;  // contents and size survive power loss
};

// A file of a fixed size whose bytes are memory, for a log that is written without a system call. A stored
// byte survives the death of the process at once, and a power loss after sync(). Synchronised, except for the
// bytes. Unmapped when destroyed, without a sync.
//
// The first store into a page, or the first after it was written to the disk, may wait for the file system. A
// thread that must not wait has the pages prepared ahead, and stores no more into a page that was synced.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  [[nodiscard]] virtual std::span<std::byte> bytes() = 0;  // zeros at first
  [[nodiscard]] virtual std::uint64_t page_bytes() const = 0;
  // What is stored in the range survives power loss, and so do the size and the space of the file. Blocks.
  // Errors: io, disk_full, read_only; not_found where the name is gone. After an error nothing is known of
  // what was stored since the last sync. A later sync that succeeds proves nothing for it: the system may
  // have dropped it.
  virtual Result<void> sync(std::uint64_t offset, std::uint64_t byte_count) = 0;
  // Makes the pages of the range ready for stores, where the system can. Changes nothing. Blocks.
  virtual void prepare(std::uint64_t offset, std::uint64_t byte_count) = 0;
};

// Holds an exclusive lock on a file and its directory until destroyed; also released when the process dies.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
  // Writes these lines into the file, behind the process id and in the place of earlier ones. Errors: io,
  // disk_full, read_only.
  virtual Result<void> note(std::string_view lines) = 0;
  // Whether the path still leads to the locked directory. Errors: io (it leads to another one), not_found.
  virtual Result<void> check() = 0;
  // If an empty directory is at the path, in the place of the locked one, locks that one instead: true. Files
  // and empty folders do not count if is_own(name): an operation of this process may have made them just when
  // the directory was replaced. Errors: io (another one that is not empty, or may not be listed), in_use.
  using IsOwn = std::function<bool(std::string_view name)>;
  virtual Result<bool> take_replacement(const IsOwn& is_own) = 0;
};

// A file that is written beside its place, and is then renamed into it.
struct AsideFile {
  Path path;
  std::unique_ptr<File> file;
};

// .sepal-0123456789abcdef.tmp
[[nodiscard]] std::string aside_name(std::uint64_t number);
[[nodiscard]] bool is_aside_name(std::string_view name);

// Synchronised. Blocks. Errors, unless a member says otherwise: io, disk_full, read_only, not_found.
//
// Files are regular files. A folder, pipe, socket or device in the place of a file is an error (io) that says
// which, and so is a link to a file that is not there. No open waits for the other end of a pipe.
//
// While this process has a directory locked (lock()), its path may come to lead to another directory: the
// first one was moved, or another was mounted over it. Then every member that opens, lists or changes
// something under the path fails (io), because the other one may be in use by another process.
class Disk {
 public:
  virtual ~Disk() = default;
  // Makes a new and empty file; an old one is replaced. Errors: io also where a symbolic link has the name.
  virtual Result<std::unique_ptr<File>> create(const Path& path) = 0;
  // Makes a new and empty file in the folder of `target`, under a name that no file had and that cannot be
  // guessed (is_aside_name): so no other file is overwritten.
  virtual Result<AsideFile> create_aside(const Path& target) = 0;
  virtual Result<std::unique_ptr<File>> open(const Path& path) = 0;  // for reading
  // The same, but with an error (io) where the path ends in a symbolic link: for names that a client gave.
  virtual Result<std::unique_ptr<File>> open_plain(const Path& path) = 0;
  // Makes a new file whose space is reserved, so that storing into it cannot fail for lack of space. Errors:
  // io also where the name is taken. After an error no file is left, as far as the disk allows that.
  virtual Result<std::unique_ptr<MappedFile>> create_mapped(const Path& path, std::uint64_t byte_count) = 0;
  virtual Result<void> make_directory(const Path& path) = 0;                 // fine when it is there
  virtual Result<std::vector<std::string>> list(const Path& directory) = 0;  // names, sorted
  virtual Result<bool> exists(const Path& path) = 0;
  virtual Result<void> rename(const Path& from, const Path& to) = 0;  // replaces `to` atomically
  // Gives a file a second name, which must not be there yet. Errors: io also where the file system has no
  // such links.
  virtual Result<void> link(const Path& from, const Path& to) = 0;
  virtual Result<void> remove(const Path& path) = 0;  // a file; fine when it is not there
  // Gives back the space of a file from `offset` to its end. The length stays, and that part reads as zeros
  // from then on. Errors: io also where the file system cannot do this.
  virtual Result<void> release(const Path& path, std::uint64_t offset) = 0;
  // The bytes that the file system of a path still has for this process, as far as the system tells.
  virtual Result<std::uint64_t> free_bytes(const Path& path) = 0;
  virtual Result<void> remove_tree(const Path& directory) = 0;     // fine when it is not there
  virtual Result<void> sync_directory(const Path& directory) = 0;  // names in it survive power loss
  // Errors: in_use, with the process that holds the lock where it is known. Waits a moment for is_locked().
  virtual Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) = 0;
  // Whether a process holds the lock, this one or another. Needs the right to read the file and its
  // directory; the file may be missing. Makes no file. A lock() of another process meanwhile is not refused.
  virtual Result<bool> is_locked(const Path& path) = 0;
};

// The real disk.
[[nodiscard]] std::unique_ptr<Disk> make_posix_disk();

// Once this succeeds the new contents survive power loss. If only the directory sync fails, either version
// may be found after a crash; on any earlier failure the old one is untouched. Blocks.
Result<void> replace_file(Disk& disk, const Path& target, std::span<const std::byte> contents);

}  // namespace sepal::storage
