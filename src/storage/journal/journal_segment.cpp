#include "storage/journal/journal_segment.hpp"

#include <sepal/base/hash.hpp>
#include <sepal/base/prefetch.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

namespace sepal::storage {
namespace {

// The frame of a hundred new items. That is a few more cache lines than a core can fetch at once.
constexpr std::uint64_t asked_for_bytes_max = 1600;

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

}  // namespace

void JournalSegment::begin(std::uint64_t first_position, const Lineage& lineage) {
  SEPAL_ASSERT(is_unused(), "a segment begins once");
  SEPAL_ASSERT(first_position <= format::position_max, "a segment begins at a position that none can have");
  begun_ = true;
  first_position_ = first_position;
  format::SegmentHeader header;
  header.segment_number = number_;
  header.first_position = first_position;
  header.segment_bytes = file_->bytes().size();
  header.identity = lineage.identity;
  header.run = lineage.run;
  header.run_before = lineage.run_before;
  header.checksum = format::segment_checksum(header);
  std::memcpy(file_->bytes().data(), &header, sizeof header);
}

void JournalSegment::append(std::span<const std::byte> body, std::uint64_t body_checksum,
                            std::uint64_t synced_position, std::uint32_t flags) {
  SEPAL_ASSERT(begun_ && !body.empty(), "a frame is empty, or its segment has not begun");
  format::FrameHead head;
  head.body_bytes = static_cast<std::uint32_t>(body.size());
  head.flags = flags;
  head.synced_position = synced_position;
  seal(head, body_checksum);
  std::memcpy(file_->bytes().data() + end_offset() + sizeof head, body.data(), body.size());
  write_head(head);
  // Last, because seal() and write_head() take the frame's position and place from it. The zeros behind the
  // body need no store: the file has only zeros there.
  used_ += format::frame_bytes(body.size());
  // Prefetches the lines of the next frame, which is often as long as this one. Otherwise a lock that is
  // taken after the stores of that frame waits until these lines have come.
  prefetch_to_write(file_->bytes().data() + end_offset(),
                    std::min(format::frame_bytes(body.size()), asked_for_bytes_max));
}

// Without room for a filler the next frame stores into the synced page again, or goes into the next segment.
std::uint64_t JournalSegment::filler_bytes() const {
  const std::uint64_t page_bytes = file_->page_bytes();
  std::uint64_t bytes = (page_bytes - end_offset() % page_bytes) % page_bytes;
  if (bytes == 0) return 0;
  // Too little is left for a head and a body, so the filler takes the next page as well.
  if (bytes < format::frame_bytes(1)) bytes += page_bytes;
  return bytes <= room() ? bytes : 0;
}

void JournalSegment::append_filler(std::uint64_t bytes, std::uint64_t synced_position) {
  SEPAL_ASSERT(begun_ && bytes >= format::frame_bytes(1) && bytes <= room(),
               "a filler is no frame, or its segment has no room for it");
  SEPAL_ASSERT(bytes % format::frame_alignment == 0,
               "the frame behind a filler would stand at no multiple of its alignment");
  format::FrameHead head;
  // Only the head is stored. The body is the zeros that the file has there, and the checksum leaves it out.
  head.body_bytes = static_cast<std::uint32_t>(bytes - sizeof head);
  head.flags = format::frame_filler;
  head.synced_position = synced_position;
  seal(head, Checksum::of({}));
  write_head(head);
  used_ += bytes;
}

void JournalSegment::seal(format::FrameHead& head, std::uint64_t body_checksum) const {
  head.checksum = format::frame_checksum(head, end_position(), body_checksum);
}

// The head is written last, so a process that dies in between leaves no frame instead of a wrong one. On the
// disk the order does not matter: the checksum covers head and body. The fence binds the compiler only. The
// processor needs none: all stores before the instruction at which a process dies have been made.
void JournalSegment::write_head(const format::FrameHead& head) {
  std::atomic_signal_fence(std::memory_order_release);
  std::memcpy(file_->bytes().data() + end_offset(), &head, sizeof head);
}

SegmentRange JournalSegment::pages(std::uint64_t byte_count) const {
  SEPAL_ASSERT(byte_count > 0, "no pages are asked for");
  const std::uint64_t from = end_offset();
  return {.file = file_.get(),
          .from = from,
          .to = std::min<std::uint64_t>(from + byte_count, file_->bytes().size())};
}

SegmentRange JournalSegment::next_pages(std::uint64_t window_bytes) {
  const SegmentRange range = pages(window_bytes);
  // At the end of the file there are no further pages: the next segment's are prepared with the rotation.
  pages_low_ = range.to == file_->bytes().size() ? never : range.from + window_bytes / 2;
  return range;
}

bool JournalSegment::wants_pages() {
  if (end_offset() < pages_low_) return false;
  pages_low_ = never;
  return true;
}

}  // namespace sepal::storage
