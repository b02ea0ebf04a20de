#include "storage/journal/journal_room.hpp"

#include <iterator>

namespace sepal::storage {

using keyspace::Change;

namespace {

// A worker takes at most this part of the room at a time, so that the first workers leave some to the others.
constexpr std::uint64_t reserves_in_room_min = 16;

}  // namespace

std::uint64_t JournalRoom::room() const {
  std::uint64_t bytes = room_behind(ahead_);
  if (active_) bytes += active_->room();
  // No segment is before the very first one, so nothing stays unused there.
  if (!active_ && !ahead_.empty()) bytes += shares_.frame_bytes_max;
  return bytes;
}

std::uint64_t JournalRoom::unreserved() const {
  if (resumed_due_) return 0;
  const std::uint64_t bytes = room();
  return bytes > reserved_ ? bytes - reserved_ : 0;
}

bool JournalRoom::reserve(std::uint64_t& reserve, std::uint64_t lacking, Change change) {
  SEPAL_ASSERT(reserve <= reserved_, "a worker holds more room than all workers together");
  const std::uint64_t available = unreserved();
  if (lacking > available || (freeing_only_ && change != Change::frees)) return false;
  // Room that is kept for changes that free must not end up in the reserve of another change.
  const std::uint64_t usual = std::min(shares_.reserve_bytes, available / reserves_in_room_min);
  const std::uint64_t taken = freeing_only_ ? lacking : std::max(lacking, usual);
  reserve += taken;
  reserved_ += taken;
  return true;
}

bool JournalRoom::meet_wishes() {
  bool met = false;
  for (std::uint64_t* const wanted : {&wanted_, &wanted_freeing_})
    if (*wanted != 0 && *wanted <= unreserved()) {
      *wanted = 0;
      met = true;
    }
  return met;
}

JournalSegment& JournalRoom::go_on() {
  SEPAL_ASSERT(!ahead_.empty(), "more was recorded than was admitted");
  // The thread keeps it there until all of it is synced (take_synced).
  if (active_) written_.push_back(std::move(active_));
  active_ = std::move(ahead_.front());
  ahead_.pop_front();
  SEPAL_ASSERT(active_->room() >= shares_.frame_bytes_max,
               "the next segment has no room for the longest frame");
  return *active_;
}

void JournalRoom::add(std::unique_ptr<JournalSegment> segment, bool for_freeing) {
  SEPAL_ASSERT(segment->is_unused() && segment->room() >= shares_.frame_bytes_max,
               "a segment ahead is in use, or has no room for a frame");
  ahead_.push_back(std::move(segment));
  freeing_only_ = for_freeing;
}

JournalSegments JournalRoom::take_synced() {
  // A segment that was filled up during the sync stays for the next one, and so do all behind it.
  const auto unsynced_one = std::find_if(written_.begin(), written_.end(), [](const auto& segment) {
    const SegmentRange range = segment->unsynced();
    return range.from != range.to;
  });
  JournalSegments taken(std::make_move_iterator(written_.begin()), std::make_move_iterator(unsynced_one));
  written_.erase(written_.begin(), unsynced_one);
  return taken;
}

JournalSegments JournalRoom::take_ahead() {
  JournalSegments taken(std::make_move_iterator(ahead_.begin()), std::make_move_iterator(ahead_.end()));
  ahead_.clear();
  return taken;
}

JournalSegments JournalRoom::take_surplus() {
  JournalSegments taken;
  const std::uint64_t needed = reserved_ + most_wanted();
  while (!freeing_only_ && ahead_.size() > shares_.segments_ahead &&
         room() - (ahead_.back()->room() - shares_.frame_bytes_max) >= needed) {
    taken.push_back(std::move(ahead_.back()));
    ahead_.pop_back();
  }
  return taken;
}

JournalSegments JournalRoom::take_spare() {
  JournalSegments taken = std::exchange(written_, {});
  while (!ahead_.empty()) {
    auto last = std::move(ahead_.back());
    ahead_.pop_back();
    if (room() < reserved_) {
      ahead_.push_back(std::move(last));
      break;
    }
    taken.push_back(std::move(last));
  }
  return taken;
}

std::uint64_t JournalRoom::lacks_to_replace(const JournalSegments& fresh) const {
  if (fresh.empty()) return std::max<std::uint64_t>(reserved_, 1);
  const std::uint64_t bytes = room_behind(fresh) + shares_.frame_bytes_max;
  return reserved_ > bytes ? reserved_ - bytes : 0;
}

JournalSegments JournalRoom::replace(JournalSegments fresh, bool for_freeing) {
  SEPAL_ASSERT(lacks_to_replace(fresh) == 0,
               "the journal begins anew with less room than workers have reserved");
  JournalSegments old = std::exchange(written_, {});
  if (active_) old.push_back(std::move(active_));
  for (auto& segment : ahead_) old.push_back(std::move(segment));
  ahead_.assign(std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
  freeing_only_ = for_freeing;
  wanted_ = 0;
  return old;
}

std::vector<SegmentRange> JournalRoom::next_pages(std::uint64_t window_bytes) const {
  std::vector<SegmentRange> ranges{active_->next_pages(window_bytes)};
  const std::uint64_t covered = ranges.back().to - ranges.back().from;
  SEPAL_ASSERT(covered <= window_bytes, "more pages are prepared than the window has");
  if (covered < window_bytes && !ahead_.empty())
    ranges.push_back(ahead_.front()->next_pages(window_bytes - covered));
  return ranges;
}

}  // namespace sepal::storage
