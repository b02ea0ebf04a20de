#include "storage/journal/segment_files.hpp"

#include <sepal/base/assert.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace sepal::storage {
namespace {

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

// Tells how a file begins. A file that does not begin as a segment is no error here: a crash leaves such
// files, and the reader decides whether the journal needs it.
void judge(std::span<const std::byte> bytes, SegmentFile& segment) {
  format::SegmentHeader header;
  // Prepared and never used, also if the file is too short for a header.
  if (all_zero(bytes)) return;
  segment.header = SegmentFile::Header::lost;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != format::SegmentHeader::expected_magic) return;
  // The version is checked before the checksum, because another version may keep its checksum elsewhere.
  segment.version = header.version;
  if (!known_journals.has(header.version)) {
    segment.header = SegmentFile::Header::of_another_version;
    return;
  }
  if (header.flags != 0 || header.checksum != format::segment_checksum(header)) return;
  if (header.first_position > format::position_max) return;
  segment.header = SegmentFile::Header::right;
  segment.number = header.segment_number;
  segment.first_position = header.first_position;
  segment.segment_bytes = header.segment_bytes;
  // Earlier versions left zeros there.
  segment.lineage = {.identity = header.identity, .run = header.run, .run_before = header.run_before};
}

}  // namespace

Result<SegmentFile> read_segment(Disk& disk, const Path& path) {
  SegmentFile segment{.number = 0, .path = path};
  auto file = disk.open(path);
  if (!file) return file.error();
  const auto size = (*file)->size();
  if (!size) return size.error();
  segment.byte_count = *size;
  std::array<std::byte, sizeof(format::SegmentHeader)> bytes{};
  const auto read = (*file)->read_at(0, bytes);
  if (!read) return read.error();
  judge(std::span(bytes).first(*read), segment);
  return segment;
}

Result<std::vector<SegmentFile>> list_segments(Disk& disk, const Path& directory) {
  const auto names = disk.list(directory);
  if (!names) return names.error();
  std::vector<SegmentFile> segments;
  // The names are sorted, and all have the same number of digits, so the numbers are sorted as well.
  for (const std::string& name : *names) {
    const auto number = format::segment_number(name);
    if (!number) continue;
    auto segment = read_segment(disk, directory / name);
    // Only a TolerantDisk gives this error. The reader meets it again when it gets there.
    if (!segment && segment.error().code == Errc::damaged)
      segment = SegmentFile{.path = directory / name, .header = SegmentFile::Header::lost};
    if (!segment) return segment.error();
    // A file that was renamed is not the segment that its header names.
    if (segment->begins() && segment->number != *number) segment->header = SegmentFile::Header::lost;
    segment->number = *number;
    segments.push_back(std::move(*segment));
  }
  return segments;
}

Result<void> SegmentBytes::open(Disk& disk, const SegmentFile& segment) {
  auto file = disk.open(segment.path);
  if (!file) return file.error();
  // Asked before the first read of the bytes (File::data_ranges). Most of an unfilled segment was never
  // written. To read that takes time: the system first has to make the zeros.
  auto data = (*file)->data_ranges();
  if (!data) return data.error();
  file_ = std::move(*file);
  data_ = std::move(*data);
  byte_count_ = segment.byte_count;
  bytes_ = buffer_.for_file(byte_count_);
  held_ = 0;
  return {};
}

bool SegmentBytes::holds(std::uint64_t offset, std::size_t count) const {
  return offset >= offset_ && offset - offset_ <= held_ && count <= held_ - (offset - offset_);
}

std::uint64_t SegmentBytes::next_data(std::uint64_t offset) const {
  const auto range = std::ranges::upper_bound(data_, offset, {}, &DataRange::end);
  return range == data_.end() ? std::max(offset, byte_count_) : std::max(offset, range->begin);
}

Result<std::span<const std::byte>> SegmentBytes::view(std::uint64_t offset, std::size_t count) {
  SEPAL_ASSERT(count <= capacity, "more than the buffer holds");
  if (offset >= byte_count_) return std::span<const std::byte>();
  count = static_cast<std::size_t>(std::min<std::uint64_t>(count, byte_count_ - offset));
  if (!holds(offset, count)) {
    SEPAL_ASSERT(file_ != nullptr, "a segment is looked at before it is opened");
    // Fills the whole buffer, because the frames behind this place are looked at next.
    const auto read = file_->read_at(offset, bytes_);
    if (!read) return read.error();
    SEPAL_ASSERT(*read <= bytes_.size(), "a segment gives more bytes than were asked for");
    offset_ = offset;
    held_ = *read;
    // The file may have become shorter since it was listed.
    count = std::min(count, held_);
  }
  return std::span<const std::byte>(bytes_.subspan(static_cast<std::size_t>(offset - offset_), count));
}

}  // namespace sepal::storage
