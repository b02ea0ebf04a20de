// The segments of the journal, and the room in them.
//
//     written, not all synced  |  active  |  ahead: prepared, unused
//
// The room is the rest of the active segment, and the size of each segment ahead, less the bytes that may
// stay unused at the end of the segment before it, because a frame lies in one segment. A worker reserves
// some room at a time, so an admitted request finds its room whatever the other workers do. Each append takes
// its bytes from the worker's reserve.
//
// If no segment can be made for ordinary changes, the thread makes small ones for changes that give room
// back (Change::frees), some of them from the disk reserve. While `freeing_only` lasts, other changes find no
// room.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/keyspace/mutation_log.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "storage/journal/journal_segment.hpp"

namespace sepal::storage {

using JournalSegments = std::vector<std::unique_ptr<JournalSegment>>;

// Guarded by the lock of the journal's core.
class JournalRoom {
 public:
  struct Shares {
    std::uint64_t frame_bytes_max = 0;
    std::uint64_t reserve_bytes = 0;  // what a worker reserves at a time if there is plenty
    std::size_t segments_ahead = 0;   // that are always kept
  };

  explicit JournalRoom(const Shares& shares) : shares_(shares) {}

  // --- room -----------------------------------------------------------------------------------------------

  [[nodiscard]] std::uint64_t unreserved() const;
  [[nodiscard]] std::uint64_t reserved() const { return reserved_; }
  // Adds at least `lacking` to a worker's reserve. False, with nothing done, if there is no room for it.
  [[nodiscard]] bool reserve(std::uint64_t& reserve, std::uint64_t lacking, keyspace::Change change);
  // A worker waits for so much.
  void want(std::uint64_t bytes, keyspace::Change change) {
    std::uint64_t& wanted = change == keyspace::Change::frees ? wanted_freeing_ : wanted_;
    wanted = std::max(wanted, bytes);
  }
  void use(std::uint64_t& reserve, std::uint64_t bytes) {
    const std::uint64_t used = std::min(reserve, bytes);
    SEPAL_ASSERT(used <= reserved_, "a frame takes more room than is reserved");
    reserve -= used;
    reserved_ -= used;
  }
  // Gives back what a reserve has above `kept`.
  void give_back(std::uint64_t& reserve, std::uint64_t kept) {
    SEPAL_ASSERT(reserve <= reserved_, "a worker gives back more room than is reserved");
    if (reserve > kept) reserved_ -= std::exchange(reserve, kept) - kept;
  }
  // Forgets what is waited for and is there now. True: there was such a worker.
  bool meet_wishes();
  // There is no room for a worker that waits.
  [[nodiscard]] bool lacks_wanted() const { return wanted_ > unreserved(); }
  [[nodiscard]] bool lacks_wanted_freeing() const { return wanted_freeing_ > unreserved(); }
  void forget_freeing() { wanted_freeing_ = 0; }

  // A `resumed` has to be recorded before anything else. Until then nothing can be reserved.
  [[nodiscard]] bool resumed_due() const { return resumed_due_; }
  void set_resumed_due(bool due) { resumed_due_ = due; }
  // Whether there is room for a frame that no worker has reserved. Room that workers have reserved is not
  // taken for it.
  [[nodiscard]] bool has_beside_reserves(std::uint64_t bytes) const { return room() >= reserved_ + bytes; }

  [[nodiscard]] bool freeing_only() const { return freeing_only_; }
  void set_freeing_only(bool only) { freeing_only_ = only; }

  // --- segments -------------------------------------------------------------------------------------------

  // Null before the first segment.
  [[nodiscard]] JournalSegment* active() const { return active_.get(); }
  // Whether the frame needs the next segment. The rest of the active one then stays unused.
  [[nodiscard]] bool needs_next(std::uint64_t frame_bytes) const {
    return !active_ || active_->room() < frame_bytes;
  }
  // Makes the first of the segments ahead the active one.
  JournalSegment& go_on();
  void add(std::unique_ptr<JournalSegment> segment, bool for_freeing);
  [[nodiscard]] bool short_of_segments() const {
    return freeing_only_ || ahead_.size() < shares_.segments_ahead || room() < reserved_ + most_wanted();
  }
  // Calls visit(segment) for those that may have something that is not synced, oldest first.
  template <class Visit>
  void each_unsynced(const Visit& visit) const {
    for (const auto& segment : written_) visit(*segment);
    if (active_) visit(*active_);
  }
  // Takes the segments that are fully synced.
  [[nodiscard]] JournalSegments take_synced();
  // Takes the segments ahead.
  [[nodiscard]] JournalSegments take_ahead();
  // Takes the segments ahead that no worker needs, beyond those that are always kept.
  [[nodiscard]] JournalSegments take_surplus();
  // The active one, and those ahead.
  [[nodiscard]] std::size_t segments_kept() const {
    return std::max(shares_.segments_ahead, ahead_.size()) + 1;
  }
  // Takes all segments without which workers still have the room that they have reserved.
  [[nodiscard]] JournalSegments take_spare();
  // How much more room `fresh` needs for replace(): workers hold reserves in it. At least 1 if it is empty.
  [[nodiscard]] std::uint64_t lacks_to_replace(const JournalSegments& fresh) const;
  // Takes `fresh` in the place of all segments, and returns these. There is no active segment then.
  [[nodiscard]] JournalSegments replace(JournalSegments fresh, bool for_freeing);
  // The next `window_bytes` that are stored into. They may reach over the end of the active segment.
  [[nodiscard]] std::vector<SegmentRange> next_pages(std::uint64_t window_bytes) const;

 private:
  [[nodiscard]] std::uint64_t room() const;
  // The room of segments before which there is another one.
  template <class Segments>
  [[nodiscard]] std::uint64_t room_behind(const Segments& segments) const {
    std::uint64_t bytes = 0;
    for (const auto& segment : segments) bytes += segment->room() - shares_.frame_bytes_max;
    return bytes;
  }
  [[nodiscard]] std::uint64_t most_wanted() const { return std::max(wanted_, wanted_freeing_); }

  const Shares shares_;
  std::unique_ptr<JournalSegment> active_;
  // Only the journal's thread takes segments out, so it may use them without the lock.
  JournalSegments written_;
  std::deque<std::unique_ptr<JournalSegment>> ahead_;
  std::uint64_t reserved_ = 0;        // by all workers
  std::uint64_t wanted_ = 0;          // room that a worker waits for
  std::uint64_t wanted_freeing_ = 0;  // the same, for changes that free
  bool freeing_only_ = false;
  bool resumed_due_ = false;
};

}  // namespace sepal::storage
