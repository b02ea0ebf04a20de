#include "storage/journal/journal_files.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/log/event.hpp>
#include <sepal/storage/journal/journal.hpp>

#include <algorithm>
#include <utility>

#include "storage/journal/segment_files.hpp"

namespace sepal::storage {
namespace {

// Pages that a new segment gets at once, so that a rotation finds them ready.
constexpr std::uint64_t first_pages_bytes = std::uint64_t{1} << 20;
static_assert(first_pages_bytes <= journal_segment_bytes_min);

}  // namespace

// What the last process wrote may not have reached the disk. From here on it is relied on, so it is synced
// first.
Result<SyncedMark> JournalFiles::take_over(std::uint64_t position) {
  const auto segments = list_segments(disk_, directory_);
  if (!segments) return segments.error();
  SyncedMark mark;
  for (const SegmentFile& segment : *segments) {
    auto file = disk_.open(segment.path);
    if (!file) return file.error();
    if (auto synced = (*file)->sync(); !synced) return synced.error();
    next_number_ = std::max(next_number_, segment.number + 1);
    // The true end is at or below this position. So the file stays until the next generation.
    past_.push_back({.number = segment.number, .end_position = position, .byte_count = segment.byte_count});
    byte_count_.fetch_add(segment.byte_count, std::memory_order_relaxed);
    // They are sorted by number, so the newest one that has begun is left.
    if (segment.begins())
      mark = {.segment_number = segment.number, .first_position = segment.first_position, .position = 0};
  }
  count_.store(past_.size(), std::memory_order_relaxed);
  return mark;
}

Result<std::unique_ptr<JournalSegment>> JournalFiles::make(std::uint64_t segment_bytes) {
  SEPAL_ASSERT(segment_bytes > sizeof(format::SegmentHeader), "a segment has no room behind its header");
  if (next_number_ > format::segment_number_max)
    return fail(Errc::io, "cannot name a segment after " +
                              (directory_ / format::segment_name(next_number_ - 1)).string() +
                              ", which has the highest number there is; move it away");
  // A number is used once, even if no segment comes of it: the file of a failed try may still be there, and
  // create_mapped() refuses a name that is taken.
  const std::uint64_t number = next_number_++;
  const Path path = directory_ / format::segment_name(number);
  auto file = disk_.create_mapped(path, segment_bytes);
  if (!file) return file.error();
  // The name is on disk before the segment can hold a frame: after a power cut a start finds frames by the
  // name alone.
  if (auto synced = disk_.sync_directory(directory_); !synced) {
    static_cast<void>(disk_.remove(path));
    return synced.error();
  }
  (*file)->prepare(0, std::min(first_pages_bytes, segment_bytes));
  count_.fetch_add(1, std::memory_order_relaxed);
  byte_count_.fetch_add(segment_bytes, std::memory_order_relaxed);
  return std::make_unique<JournalSegment>(std::move(*file), number);
}

void JournalFiles::let_go(JournalSegments segments) {
  // A save may have covered them before they were synced; then they can be removed at once.
  more_past_ = more_past_ || !segments.empty();
  for (const auto& segment : segments)
    past_.push_back({.number = segment->number(),
                     .end_position = segment->end_position(),
                     .byte_count = segment->file().bytes().size()});
}

void JournalFiles::remove(JournalSegments segments) {
  for (const auto& segment : segments)
    static_cast<void>(remove_file(segment->number(), segment->file().bytes().size()));
}

bool JournalFiles::remove_past(std::uint64_t saved) {
  // A file that could not be removed is tried again after the next save.
  SEPAL_ASSERT(saved >= removed_until_, "a generation is older than the one before it");
  const bool another = std::exchange(removed_until_, saved) != saved;
  if (!std::exchange(more_past_, false) && !another) return false;
  // The directory is not synced. A power cut may bring a segment back, but a reader skips what ends at or
  // below the cut.
  std::erase_if(past_, [&](const Past& past) {
    return past.end_position <= saved && remove_file(past.number, past.byte_count);
  });
  return another;
}

bool JournalFiles::has_past_behind(std::uint64_t position) const {
  return std::ranges::any_of(past_, [&](const Past& past) { return past.end_position > position; });
}

bool JournalFiles::remove_file(std::uint64_t number, std::uint64_t byte_count) {
  const Path path = directory_ / format::segment_name(number);
  if (const auto removed = disk_.remove(path); !removed) {
    log::warn("segment_not_removed", "journal segment not removed", {{"reason", removed.error().detail}});
    return false;
  }
  const std::uint64_t count_before = count_.fetch_sub(1, std::memory_order_relaxed);
  const std::uint64_t bytes_before = byte_count_.fetch_sub(byte_count, std::memory_order_relaxed);
  SEPAL_ASSERT(count_before > 0 && bytes_before >= byte_count, "more of the journal is removed than it has");
  return true;
}

}  // namespace sepal::storage
