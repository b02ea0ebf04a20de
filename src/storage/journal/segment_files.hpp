// The segments of a journal that a directory holds, and their bytes in pieces.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/lineage.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "storage/disk/damage.hpp"
#include "storage/format/load_buffer.hpp"

namespace sepal::storage {

inline constexpr KnownVersions known_journals{.first = format::journal_version_first,
                                              .last = format::journal_version};

struct SegmentFile {
  // How the file begins. Right: as a segment does. Unused: with zeros. Lost: with anything else.
  enum class Header : std::uint8_t { right, unused, lost, of_another_version };

  std::uint64_t number = 0;
  Path path;
  std::uint64_t byte_count = 0;
  Header header = Header::unused;
  std::uint32_t version = 0;
  // Valid if the header is right:
  std::uint64_t first_position = 0;
  std::uint64_t segment_bytes = 0;  // the length that the file should have
  Lineage lineage{};

  [[nodiscard]] bool begins() const { return header == Header::right; }
};

// Reads the header of a file with any name. The number is that of the header.
Result<SegmentFile> read_segment(Disk& disk, const Path& path);

// All segments, sorted by number; there may be none. Blocks. Errors: those of Disk; not_found if the
// directory is not there.
Result<std::vector<SegmentFile>> list_segments(Disk& disk, const Path& directory);

// Looks at the bytes of one segment after the other through one buffer. Confined. Blocks.
class SegmentBytes {
 public:
  // Several frames of the greatest length fit.
  static constexpr std::size_t capacity = 4 * format::frame_bytes(format::frame_body_bytes_max);

  Result<void> open(Disk& disk, const SegmentFile& segment);

  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_; }
  // The `count` bytes from `offset` on, at most `capacity`; fewer at the end of the file. They are valid
  // until view() has to read other bytes into the buffer.
  Result<std::span<const std::byte>> view(std::uint64_t offset, std::size_t count);
  [[nodiscard]] bool holds(std::uint64_t offset, std::size_t count) const;
  // The next offset, from `offset` on, at which bytes may be other than zero; byte_count() or more if there
  // are none.
  [[nodiscard]] std::uint64_t next_data(std::uint64_t offset) const;

 private:
  std::unique_ptr<File> file_;
  std::vector<DataRange> data_;
  std::uint64_t byte_count_ = 0;
  GrowingBuffer<capacity> buffer_;
  std::span<std::byte> bytes_;  // a view of the buffer
  std::uint64_t offset_ = 0;    // where the buffer's bytes begin in the file
  std::size_t held_ = 0;
};

}  // namespace sepal::storage
