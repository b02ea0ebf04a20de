// A view of a failing disk, for tools that use whatever can still be read.
//
// What cannot be read is damage. A file that cannot be opened gives the error `damaged`. Bytes that cannot be
// read are replaced, in pieces of piece_bytes, by a fill that no checksum matches. So every reader finds the
// damage at its place, and goes on behind it as behind any other damage. The view remembers what it could not
// read, because damage at the end of a journal may look harmless.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sepal::storage {

// Synchronised. Writing goes to the disk below as it is. Errors of list() and open(): damaged and not_found.
class TolerantDisk final : public Disk {
 public:
  static constexpr std::uint64_t piece_bytes = 4096;

  explicit TolerantDisk(Disk& disk) : disk_(disk) {}

  // One sentence for each file that could not be read completely, in the order of their names.
  [[nodiscard]] std::vector<std::string> unreadable() const;

  Result<std::unique_ptr<File>> open(const Path& path) override;
  Result<std::unique_ptr<File>> open_plain(const Path& path) override { return disk_.open_plain(path); }
  Result<std::vector<std::string>> list(const Path& directory) override;

  Result<std::unique_ptr<File>> create(const Path& path) override { return disk_.create(path); }
  Result<AsideFile> create_aside(const Path& target) override { return disk_.create_aside(target); }
  Result<std::unique_ptr<MappedFile>> create_mapped(const Path& path, std::uint64_t byte_count) override {
    return disk_.create_mapped(path, byte_count);
  }
  Result<void> make_directory(const Path& path) override { return disk_.make_directory(path); }
  Result<bool> exists(const Path& path) override { return disk_.exists(path); }
  Result<void> rename(const Path& from, const Path& to) override { return disk_.rename(from, to); }
  Result<void> link(const Path& from, const Path& to) override { return disk_.link(from, to); }
  Result<void> remove(const Path& path) override { return disk_.remove(path); }
  Result<void> release(const Path& path, std::uint64_t offset) override {
    return disk_.release(path, offset);
  }
  Result<std::uint64_t> free_bytes(const Path& path) override { return disk_.free_bytes(path); }
  Result<void> remove_tree(const Path& directory) override { return disk_.remove_tree(directory); }
  Result<void> sync_directory(const Path& directory) override { return disk_.sync_directory(directory); }
  Result<std::unique_ptr<DirectoryLock>> lock(const Path& path) override { return disk_.lock(path); }
  Result<bool> is_locked(const Path& path) override { return disk_.is_locked(path); }

 private:
  class TolerantFile;

  struct Trouble {
    std::string reason;
    std::map<std::uint64_t, std::uint64_t> pieces;  // unreadable ones: begin to end
  };

  Error unreadable_file(const Path& path, const Error& error);
  // `piece` is empty if the whole file cannot be read.
  void note(const Path& path, const Error& error, const DataRange& piece);
  // Whether any byte of the range is known to be unreadable.
  [[nodiscard]] bool is_noted(const Path& path, std::uint64_t begin, std::uint64_t end) const;

  Disk& disk_;
  mutable Mutex mutex_;  // Lock order: the innermost.
  std::map<Path, Trouble> troubles_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::storage
