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

// Confined. Closed when destroyed. Blocks. Errors of all members: io, disk_full, read_only.
class File {
 public:
  virtual ~File() = default;
  // Writes all of `bytes` at `offset`.
  virtual Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Reads up to into.size() bytes; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) = 0;
  virtual Result<std::uint64_t> size() = 0;
  virtual Result<void> sync() = 0;  // contents and size survive power loss
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
  virtual Result<std::unique_ptr<File>> create(
      const Path& path) = 0;                                         // new and empty; an old one is replaced
  virtual Result<std::unique_ptr<File>> open(const Path& path) = 0;  // for reading
  virtual Result<void> make_directory(const Path& path) = 0;         // fine when it is there
  virtual Result<std::vector<std::string>> list(const Path& directory) = 0;  // names, sorted
  virtual Result<bool> exists(const Path& path) = 0;
  virtual Result<void> rename(const Path& from, const Path& to) = 0;  // replaces `to` atomically
  virtual Result<void> remove(const Path& path) = 0;                  // a file; fine when it is not there
  virtual Result<void> remove_tree(const Path& directory) = 0;        // fine when it is not there
  virtual Result<void> sync_directory(const Path& directory) = 0;     // names in it survive power loss
  // Errors: in_use, with what holds it where known.
  virtual Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) = 0;
};

// The real one.
[[nodiscard]] std::unique_ptr<Disk> make_posix_disk();

// Once this succeeds the new contents survive power loss. If only the directory sync fails, either version
// may be found after a crash; on any earlier failure the old one is untouched. Blocks.
Result<void> replace_file(Disk& disk, const Path& target, std::span<const std::byte> contents);

}  // namespace sepal::storage
