#include "storage/disk/tolerant_disk.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace sepal::storage {
namespace {

// Not zeros, because a reader of the journal takes zeros for space that was never written.
constexpr std::byte unreadable_fill{0xff};

}  // namespace

class TolerantDisk::TolerantFile final : public File {
 public:
  TolerantFile(TolerantDisk& disk, std::unique_ptr<File> file, Path path, std::uint64_t byte_count)
      : disk_(disk), file_(std::move(file)), path_(std::move(path)), byte_count_(byte_count) {}

  // A piece that failed once is not read again: a bad sector can occupy the disk for many seconds.
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    if (disk_.is_noted(path_, offset, offset + into.size())) return read_pieces(offset, into);
    // One large read as a rule. Only after an error the pieces are tried, to lose as little as possible.
    const auto read = file_->read_at(offset, into);
    return read ? read : read_pieces(offset, into);
  }

  Result<std::uint64_t> size() override { return byte_count_; }
  Result<std::vector<DataRange>> data_ranges() override {
    auto ranges = file_->data_ranges();
    // Without ranges the whole file counts as data: so nothing is passed over as a hole.
    return ranges ? std::move(ranges) : std::vector{DataRange{.begin = 0, .end = byte_count_}};
  }
  Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return file_->write_at(offset, bytes);
  }
  Result<void> write_back(std::uint64_t offset, std::uint64_t byte_count) override {
    return file_->write_back(offset, byte_count);
  }
  Result<void> sync() override { return file_->sync(); }

 private:
  Result<std::size_t> read_pieces(std::uint64_t offset, std::span<std::byte> into) {
    const std::uint64_t left = byte_count_ - std::min(byte_count_, offset);
    // The length at the time of open() counts. What the file has lost since is filled, like bytes that
    // cannot be read.
    into = into.first(static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), left)));
    for (std::size_t done = 0; done < into.size();) {
      const std::uint64_t at = offset + done;
      const std::uint64_t end = (at / piece_bytes + 1) * piece_bytes;
      const auto piece =
          into.subspan(done, static_cast<std::size_t>(std::min<std::uint64_t>(into.size() - done, end - at)));
      read_piece(at, piece);
      done += piece.size();
    }
    return into.size();
  }

  // Reads a part of one piece, or all of it.
  void read_piece(std::uint64_t at, std::span<std::byte> part) {
    SEPAL_ASSERT(!part.empty() && at + part.size() <= byte_count_ &&
                     at / piece_bytes == (at + part.size() - 1) / piece_bytes,
                 "a part that is read at once lies in two pieces, or behind the end of the file");
    if (!disk_.is_noted(path_, at, at + part.size())) {
      const auto read = file_->read_at(at, part);
      if (read && *read == part.size()) return;
      const std::uint64_t begin = at / piece_bytes * piece_bytes;
      const std::uint64_t byte_count = std::min(piece_bytes, byte_count_ - begin);
      const Error shorter = fail(Errc::io, "cannot read " + path_.string() + ": it became shorter");
      disk_.note(path_, read ? shorter : read.error(), {.begin = begin, .end = begin + byte_count});
    }
    std::ranges::fill(part, unreadable_fill);
  }

  TolerantDisk& disk_;
  std::unique_ptr<File> file_;
  Path path_;
  std::uint64_t byte_count_;
};

Result<std::unique_ptr<File>> TolerantDisk::open(const Path& path) {
  auto file = disk_.open(path);
  if (!file) return unreadable_file(path, file.error());
  const auto size = (*file)->size();
  if (!size) return unreadable_file(path, size.error());
  return std::unique_ptr<File>(std::make_unique<TolerantFile>(*this, std::move(*file), path, *size));
}

Result<std::vector<std::string>> TolerantDisk::list(const Path& directory) {
  auto names = disk_.list(directory);
  if (!names) return unreadable_file(directory, names.error());
  return names;
}

Error TolerantDisk::unreadable_file(const Path& path, const Error& error) {
  // A missing file is no failure of the disk. The caller knows whether the file has to be there.
  if (error.code == Errc::not_found) return error;
  note(path, error, {});
  return fail(Errc::damaged, error.detail);
}

void TolerantDisk::note(const Path& path, const Error& error, const DataRange& piece) {
  SEPAL_ASSERT(piece.begin <= piece.end, "a piece that cannot be read ends before it begins");
  const MutexLock lock(mutex_);
  Trouble& trouble = troubles_[path];
  if (trouble.reason.empty()) trouble.reason = error.detail;
  if (piece.end > piece.begin) trouble.pieces.emplace(piece.begin, piece.end);
}

bool TolerantDisk::is_noted(const Path& path, std::uint64_t begin, std::uint64_t end) const {
  const MutexLock lock(mutex_);
  const auto trouble = troubles_.find(path);
  if (trouble == troubles_.end()) return false;
  // The pieces do not overlap. So if any piece reaches into the range, the last one that begins before `end`
  // does.
  const auto behind = trouble->second.pieces.lower_bound(end);
  return behind != trouble->second.pieces.begin() && std::prev(behind)->second > begin;
}

std::vector<std::string> TolerantDisk::unreadable() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> sentences;
  for (const auto& [path, trouble] : troubles_) {
    std::uint64_t bytes = 0;
    for (const auto& [begin, end] : trouble.pieces) bytes += end - begin;
    sentences.push_back(trouble.reason);
    if (bytes > 0)
      sentences.back() += " (" + std::to_string(bytes) + " bytes, from offset " +
                          std::to_string(trouble.pieces.begin()->first) + " on)";
  }
  return sentences;
}

}  // namespace sepal::storage
