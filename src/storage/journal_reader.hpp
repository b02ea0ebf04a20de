// Reads the frames of a journal from a position on, believes nothing, and says where it ends.
//
//     segment  | frame frame frame | ? ...
//                                    p: nothing that verifies stands here
//
// What it means that no frame verifies at p:
//   the next segment begins at p    it goes on there
//   its file became shorter         damage: frames may have stood there
//   everything behind it is zeros   the journal ends
//   a later frame says that more than p was synced, or the generation knows a filter at a position above p
//                                   p was on disk once: damage
//   otherwise                       what was written last had not got to the disk: a torn tail, cut off
//
// A frame that verifies and reaches beyond where the next segment begins is damage, too.
//
// One gap is right. Who removes all segments has a generation that knows filters at a position behind its
// cut, to which no journal leads. What is recorded from then on begins at the highest of these positions, and
// a later start with the same generation finds it there.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/storage/disk.hpp>
#include <sepal/storage/journal_format.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "segment_files.hpp"

namespace sepal::storage {

struct JournalFrame {
  std::uint64_t position = 0;
  std::uint64_t offset = 0;  // in its segment's file
  std::span<const std::byte> body;
};

// Where a journal ends, and what lies beyond.
struct JournalEnd {
  std::uint64_t position = 0;
  std::uint64_t cut_bytes = 0;  // behind it, up to the last that is not zero
  Path path;                    // of the segment in which it ends; empty when there is none
  std::uint64_t offset = 0;     // there
  std::vector<Path> beyond;     // all later segments
};

// Confined. Blocks.
class JournalReader {
 public:
  struct Start {
    std::uint64_t cut = 0;               // where to begin
    std::uint64_t highest_position = 0;  // that the generation knows of a filter
  };

  // Errors: damaged and unsupported_version (file, offset, advice), those of Disk.
  static Result<JournalReader> open(Disk& disk, const Path& directory, const Start& start);

  // Of one segment, whatever its file's name, from its begin on: it ends where no frame verifies. Errors as
  // open().
  static Result<JournalReader> open_segment(Disk& disk, const Path& path);

  // The next frames, without fillers, all of one segment; valid until the next call. None: that was the end.
  // Errors as open().
  Result<std::span<const JournalFrame>> next();
  // The segment of the frames that next() gave.
  [[nodiscard]] const SegmentFile& segment() const { return segments_[current_]; }
  [[nodiscard]] const Path& path() const { return segment().path; }

  // Of what is to be read, with the empty end of the last segment.
  [[nodiscard]] std::uint64_t bytes_total() const;
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::size_t segment_count() const { return segments_.size(); }

  // Once next() has given none.
  [[nodiscard]] const JournalEnd& end() const { return end_; }
  // Ends the journal before this frame of the last that next() gave.
  Result<JournalEnd> end_before(const JournalFrame& frame);

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  // Of the segments behind the current one, the first.
  [[nodiscard]] std::size_t behind() const { return current_ == none ? 0 : current_ + 1; }

  JournalReader(Disk& disk, Start start) : disk_(&disk), start_(start), position_(start.cut) {}

  Result<void> find_start();
  Result<void> enter(std::size_t index);
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t position) const;
  [[nodiscard]] std::uint64_t data_end() const;
  // The index of the next segment that begins, or none.
  [[nodiscard]] std::size_t following() const;
  Result<std::size_t> collect_frames();
  Result<std::uint64_t> frame_at(std::uint64_t end, JournalFrame& frame);
  Result<bool> go_on();
  [[nodiscard]] bool became_shorter() const;
  [[nodiscard]] Error shorter() const;
  [[nodiscard]] Error damage(std::uint64_t synced_position) const;

  struct Tail {
    std::uint64_t synced_position = 0;  // the highest that a frame behind the end names
    std::uint64_t byte_count = 0;
  };
  Result<Tail> look_behind(std::uint64_t position);
  Result<void> look_behind(std::uint64_t position, std::uint64_t first_position, std::uint64_t offset,
                           Tail& tail);
  Result<std::uint64_t> synced_position_at(JournalFrame& frame);
  JournalEnd make_end(std::uint64_t position, const Tail& tail) const;

  Disk* disk_;
  Start start_;
  std::vector<SegmentFile> segments_;  // by number
  std::size_t current_ = none;         // none: before the first
  std::uint64_t position_;
  SegmentBytes bytes_;
  std::vector<JournalFrame> frames_;
  bool alone_ = false;
  bool ended_ = false;
  JournalEnd end_;
};

}  // namespace sepal::storage
