// Reads the frames of a journal from a position on, verifies everything, and says where the journal ends.
//
//     segment  | frame frame frame | ? ...
//                                    p: nothing that verifies stands here
//
// What it means if no frame verifies at p:
//   the next segment begins at p    reading goes on there
//   the file is too short           damage: frames may have stood there
//   everything behind it is zeros   the journal ends
//   a later frame says that more than p was synced, or the generation has a filter or a string with a
//   position above p                p was on disk once: damage
//   SYNCED says that more than p was on disk
//                                   the same, also where no segment follows
//   otherwise                       the last writes had not got to the disk: a torn tail, which is cut off
//
// If the last frame before p says that its group goes on, then the group's end is missing. The caller, who
// puts groups together (frame_groups.hpp), asks for the end before the group, and the same rules hold there.
//
// A frame that verifies but reaches beyond the beginning of the next segment is damage, too. So is a segment
// with frames that does not go on after the run that wrote what is before them (lineage.hpp), unless these
// are left out anyway.
//
// One gap is legal: after an operator deletes all segments, the generation may know values at positions
// beyond its cut. The new journal begins at the highest of these positions, and a later start with the same
// generation finds it there. Earlier versions began it at the highest position of the values whose records
// are applied once (value::Repeat), or at the cut if none has one: a journal that begins there need not reach
// the positions of the others.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/result.hpp>
#include <sepal/storage/disk/disk.hpp>
#include <sepal/storage/format/journal_format.hpp>
#include <sepal/storage/journal/highest_positions.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "storage/format/synced_file.hpp"
#include "storage/journal/segment_files.hpp"

namespace sepal::storage {

struct JournalFrame {
  std::uint64_t position = 0;
  std::uint64_t offset = 0;  // in its segment's file
  std::span<const std::byte> body;
  bool continues = false;   // the next frame is of the same group
  std::size_t segment = 0;  // for JournalReader::path_of() and end_before()
};

// Whether the journal was off before this frame. Then it ends before the frame.
[[nodiscard]] bool resumes(const JournalFrame& frame);

// Where a journal ends, and what lies beyond.
struct JournalEnd {
  std::uint64_t position = 0;
  std::uint64_t cut_bytes = 0;  // behind the end, up to the last byte that is not zero
  Path path;                    // the segment in which the journal ends; empty: there is none
  std::uint64_t offset = 0;     // where the journal ends in that segment
  std::vector<Path> beyond;     // all later segments
  std::uint32_t run = 0;        // that wrote the last frame; without a frame, the run of the generation
};

// Confined. Blocks.
class JournalReader {
 public:
  struct Start {
    std::uint64_t cut = 0;               // where reading begins
    HighestPositions highest{};          // those of the generation
    std::optional<SyncedMark> synced{};  // what SYNCED says, if it is there
    std::uint32_t run = 0;               // that saved the generation; 0: there is none, or it does not say
  };

  // Errors: damaged and unsupported_version (file, offset, advice), those of Disk.
  static Result<JournalReader> open(Disk& disk, const Path& directory, const Start& start);

  // Reads one segment from its beginning, whatever the file's name is. It ends where no frame verifies.
  // Errors as open().
  static Result<JournalReader> open_segment(Disk& disk, const Path& path);

  // The next frames, without fillers, all from one segment; valid until the next call. An empty span: the
  // journal has ended. Errors as open().
  Result<std::span<const JournalFrame>> next();
  // The segment of the frames that next() gave.
  [[nodiscard]] const SegmentFile& segment() const {
    SEPAL_ASSERT(current_ < segments_.size(), "the reader is in no segment yet");
    return segments_[current_];
  }
  [[nodiscard]] const Path& path() const { return segment().path; }
  // The segment of a frame that next() has given.
  [[nodiscard]] const Path& path_of(const JournalFrame& frame) const {
    SEPAL_ASSERT(frame.segment < segments_.size(), "a frame of a segment that the reader does not have");
    return segments_[frame.segment].path;
  }

  // How many bytes there are to read, the empty end of the last segment included.
  [[nodiscard]] std::uint64_t bytes_total() const;
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::size_t segment_count() const { return segments_.size(); }

  // The generation has values that were taken behind the cut and whose changes are applied again
  // (value::Repeat), and nothing is there of the journal of that time, which would make them whole.
  [[nodiscard]] bool values_may_be_torn() const { return !begin_ && start_.highest.again != 0; }

  // Valid once next() has returned an empty span.
  [[nodiscard]] const JournalEnd& end() const {
    SEPAL_ASSERT(ended_, "the end of the journal is asked for before it is found");
    return end_;
  }
  // Ends the journal before `frame`, which next() has given, whatever is behind it.
  Result<JournalEnd> end_before(const JournalFrame& frame);
  // Ends the journal before a group of which the end is missing, as if no frame verified at its first one.
  // Called when the journal has ended. Errors as open().
  Result<JournalEnd> end_before_group(const JournalFrame& first);

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  // The index of the first segment behind the current one.
  [[nodiscard]] std::size_t behind() const { return current_ == none ? 0 : current_ + 1; }

  JournalReader(Disk& disk, Start start)
      : disk_(&disk), start_(start), position_(start.cut), run_(start.run) {}

  Result<void> find_start();
  Result<void> enter(std::size_t index);
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t position) const;
  [[nodiscard]] std::uint64_t data_end() const;
  // The index of the next segment with a right header, or none.
  [[nodiscard]] std::size_t following() const;
  Result<std::size_t> collect_frames();
  Result<std::uint64_t> frame_at(std::uint64_t end, JournalFrame& frame);
  Result<void> follow_run(const JournalFrame& frame);
  Result<bool> go_on();
  [[nodiscard]] Result<void> leave_for(std::size_t next) const;
  Result<void> find_end();
  [[nodiscard]] bool may_begin_anew_at(std::uint64_t position) const;
  [[nodiscard]] std::uint64_t relied_on() const;
  Result<void> move_to(const JournalFrame& frame);
  [[nodiscard]] bool became_shorter() const;
  [[nodiscard]] Error shorter() const;
  [[nodiscard]] Error damage(std::uint64_t synced_position) const;
  [[nodiscard]] Result<void> check_mark() const;
  [[nodiscard]] Error end_missing(const SyncedMark& mark) const;

  struct Tail {
    std::uint64_t synced_position = 0;  // the highest that a frame behind the end names
    std::uint64_t byte_count = 0;
  };
  Result<Tail> look_behind(std::uint64_t position);
  Result<void> look_behind(std::uint64_t position, std::uint64_t first_position, std::uint64_t offset,
                           Tail& tail);
  Result<std::uint64_t> synced_position_at(JournalFrame& frame);
  [[nodiscard]] JournalEnd make_end(std::uint64_t position, const Tail& tail) const;

  Disk* disk_;
  Path directory_;  // empty for open_segment()
  Start start_;
  std::vector<SegmentFile> segments_;   // by number
  std::size_t current_ = none;          // none: before the first segment
  std::optional<std::uint64_t> begin_;  // of the segment that has the cut; none: there is no such segment
  std::uint64_t position_;
  std::uint32_t run_;  // that wrote what is before position_
  // The first frame that was read of a segment, and the run that wrote what is before it. By the segment's
  // index.
  struct Entry {
    std::uint64_t position = 0;
    std::uint32_t run = 0;
  };
  std::map<std::size_t, Entry> entries_;
  std::size_t followed_ = none;  // the segment for which follow_run() was called last
  // The segment in which a group has begun that is of a run that does not follow.
  std::size_t foreign_group_ = none;
  SegmentBytes bytes_;
  std::vector<JournalFrame> frames_;
  bool alone_ = false;
  bool ended_ = false;
  JournalEnd end_;
};

}  // namespace sepal::storage
