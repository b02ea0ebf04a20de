// One segment of the journal while it is written.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/format/lineage.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace sepal::storage {

// A part of a segment's file.
struct SegmentRange {
  MappedFile* file = nullptr;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

// Guarded by the lock of its owner; but the members of file() need no lock.
class JournalSegment {
 public:
  JournalSegment(std::unique_ptr<MappedFile> file, std::uint64_t number)
      : file_(std::move(file)), number_(number) {
    SEPAL_ASSERT(number_ != 0 && number_ <= format::segment_number_max,
                 "a segment has a number that no name can have");
    SEPAL_ASSERT(file_->bytes().size() > sizeof(format::SegmentHeader),
                 "a segment has no room behind its header");
  }

  [[nodiscard]] static constexpr std::uint64_t room_of(std::uint64_t segment_bytes) {
    return segment_bytes - sizeof(format::SegmentHeader);
  }

  [[nodiscard]] MappedFile& file() { return *file_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t first_position() const { return first_position_; }
  [[nodiscard]] std::uint64_t room() const { return room_of(file_->bytes().size()) - used_; }
  [[nodiscard]] std::uint64_t end_position() const { return first_position_ + used_; }
  // No header and no frame was written into it.
  [[nodiscard]] bool is_unused() const { return !begun_ && used_ == 0; }

  // Writes the header. Once, before any frame.
  void begin(std::uint64_t first_position, const Lineage& lineage = {});
  // The caller has checked that `frame_bytes(body.size())` is within room(). `flags` are those of a
  // FrameHead.
  void append(std::span<const std::byte> body, std::uint64_t body_checksum, std::uint64_t synced_position,
              std::uint32_t flags = 0);

  // The length of a filler that ends the page; 0 if the page has ended, or if there is no room for a filler.
  [[nodiscard]] std::uint64_t filler_bytes() const;
  void append_filler(std::uint64_t bytes, std::uint64_t synced_position);

  // unsynced() is the range that is not synced yet; synced() notes that it is, up to `offset`.
  [[nodiscard]] SegmentRange unsynced() const {
    return {.file = file_.get(), .from = synced_, .to = end_offset()};
  }
  void synced(std::uint64_t offset) {
    SEPAL_ASSERT(offset >= synced_ && offset <= end_offset(),
                 "a segment is synced backwards, or behind its end");
    synced_ = offset;
  }

  // The range that is stored into next, within the file.
  [[nodiscard]] SegmentRange pages(std::uint64_t byte_count) const;
  // The same range. When half of it is used up, wants_pages() returns true once.
  [[nodiscard]] SegmentRange next_pages(std::uint64_t window_bytes);
  [[nodiscard]] bool wants_pages();

 private:
  [[nodiscard]] std::uint64_t end_offset() const { return sizeof(format::SegmentHeader) + used_; }
  void seal(format::FrameHead& head, std::uint64_t body_checksum) const;
  void write_head(const format::FrameHead& head);

  std::unique_ptr<MappedFile> file_;
  std::uint64_t number_;
  std::uint64_t first_position_ = 0;
  bool begun_ = false;           // it has its header
  std::uint64_t used_ = 0;       // by frames
  std::uint64_t synced_ = 0;     // offset in the file
  std::uint64_t pages_low_ = 0;  // offset in the file; beyond it pages are wanted
};

}  // namespace sepal::storage
