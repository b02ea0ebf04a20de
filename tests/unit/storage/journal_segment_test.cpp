#include "storage/journal/journal_segment.hpp"

#include <sepal/base/hash.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"

namespace journal_segment_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

constexpr std::uint64_t segment_bytes = 8 * test::simulated_page_bytes;

void append_up_to(JournalSegment& segment, std::uint64_t offset) {
  const std::vector<std::byte> body(format::frame_alignment);
  while (segment.unsynced().to < offset) segment.append(body, Checksum::of(body), 0);
}

}  // namespace

TEST_CASE("more pages are requested once, when half of the prepared ones are used") {
  test::SimulatedDisk disk;
  JournalSegment segment(*disk.create_mapped("file", segment_bytes), 1);
  segment.begin(0);
  const SegmentRange first = segment.next_pages(4096);
  CHECK(first.from == sizeof(format::SegmentHeader));
  CHECK(first.to == first.from + 4096);
  append_up_to(segment, first.from + 2048 - 32);
  CHECK_FALSE(segment.wants_pages());
  append_up_to(segment, first.from + 2048);
  CHECK(segment.wants_pages());
  CHECK_FALSE(segment.wants_pages());
  CHECK(segment.next_pages(4096).from == first.from + 2048);
}

TEST_CASE("no pages beyond the end of a segment are requested") {
  test::SimulatedDisk disk;
  JournalSegment segment(*disk.create_mapped("file", segment_bytes), 1);
  segment.begin(0);
  CHECK(segment.next_pages(2 * segment_bytes).to == segment_bytes);
  append_up_to(segment, segment_bytes - 64);
  CHECK_FALSE(segment.wants_pages());
}

}  // namespace journal_segment_test
