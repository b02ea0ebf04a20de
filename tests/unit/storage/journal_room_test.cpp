// Room in the journal: segments, admission, and full disks.
#include "support/journal_fixture.hpp"

namespace journal_room_test {

using namespace sepal;
using namespace sepal::storage;
using keyspace::Admission;
using test::JournalFixture;

namespace {

// Frames of this key have 32 bytes besides the fingerprints. Such frames fill a segment to the last byte.
constexpr keyspace::DatabaseKey even_key{.database = 0, .key = "12345678"};
constexpr std::uint64_t even_frame_bytes(std::size_t count) {
  return format::frame_bytes(sizeof(format::OperationHead) + even_key.key.size() +
                             count * sizeof(Fingerprint));
}

void add_even(JournalFixture& fixture, std::size_t count) {
  REQUIRE(fixture.log().admit(even_frame_bytes(count)) == Admission::granted);
  fixture.log().begin_add();
  fixture.log().added(even_key, test::fingerprints_from(0, count));
}

}  // namespace

TEST_CASE_METHOD(JournalFixture, "a segment is filled to its last byte, and the next begins there") {
  open();
  // 16384 - 64 = 16320 = 255 * 64.
  STATIC_REQUIRE(even_frame_bytes(1) == 64);
  STATIC_REQUIRE(test::small_segment_room % even_frame_bytes(1) == 0);
  for (std::uint64_t i = 0; i < test::small_segment_room / even_frame_bytes(1); ++i) add_even(*this, 1);
  CHECK(journal->position() == test::small_segment_room);
  CHECK(segments().size() == 1);
  add_even(*this, 1);
  REQUIRE(segments().size() == 2);
  CHECK(segments()[0].end_position == test::small_segment_room);
  CHECK(segments()[1].first_position == test::small_segment_room);
  CHECK(segments()[1].number == 2);
  CHECK(segments()[1].frames.size() == 1);
}

TEST_CASE_METHOD(JournalFixture, "a frame that would end eight bytes past a segment goes into the next") {
  open();
  const std::uint64_t almost = test::small_segment_room / even_frame_bytes(1) - 1;
  for (std::uint64_t i = 0; i < almost; ++i) add_even(*this, 1);
  REQUIRE(add(1, 2));  // 80 bytes, but only 64 are left
  REQUIRE(segments().size() == 2);
  CHECK(segments()[0].end_position == almost * even_frame_bytes(1));
  CHECK(segments()[1].first_position == segments()[0].end_position);
}

TEST_CASE_METHOD(JournalFixture, "segments are prepared ahead by the thread, and never by a worker") {
  std::vector<std::string> operations_seen;
  disk.set_observer([&](const char* operation, const Path&) { operations_seen.emplace_back(operation); });
  open();
  CHECK(journal->status().segment_count == 2);
  const std::size_t before = operations_seen.size();
  fill(10);
  CHECK(operations_seen.size() == before);
  CHECK(segments().size() == 2);
  journal->work();
  // The segment in use, two prepared ones, and SYNCED.
  CHECK(names().size() == 5);
  CHECK(journal->status().segment_count == 4);
  disk.set_observer({});
}

TEST_CASE_METHOD(JournalFixture, "segments begin small, and grow with what is recorded") {
  JournalOptions options = test::small_journal;
  options.segment_bytes = 64 << 10;
  options.first_segment_bytes = 0;
  open(options);
  const auto longest = [&] {
    std::uint64_t bytes = 0;
    for (const std::string& name : names())
      if (format::segment_number(name))
        bytes = std::max(bytes, *(*disk.open(Path(directory) / name))->size());
    return bytes;
  };
  // Four of the longest frames, of an eighth of the longest segment each.
  CHECK(longest() == options.segment_bytes / 2);
  CHECK(journal->status().byte_count == 2 * longest());
  add(0);
  journal->work();
  CHECK(longest() == options.segment_bytes / 2);
  std::uint64_t adds = 1;
  for (; journal->position() < options.segment_bytes / 2; journal->work()) REQUIRE(add(adds++));
  CHECK(longest() == options.segment_bytes);
  for (; journal->position() < 4 * options.segment_bytes; journal->work()) REQUIRE(add(adds++));
  CHECK(longest() == options.segment_bytes);
  CHECK(added() == test::numbers_from(0, adds));
}

TEST_CASE_METHOD(JournalFixture, "a request without room is put off until the thread has prepared some") {
  open();
  const std::uint64_t adds = fill(10);
  CHECK(adds > 100);
  CHECK(log().admit(test::add_bytes(10)) == Admission::later);
  CHECK(journal->status().accepting);
  const int before = progress_count;
  journal->work();
  CHECK(progress_count > before);
  CHECK(add(adds * 10, 10));
  CHECK(added() == test::numbers_from(0, (adds + 1) * 10));
}

TEST_CASE_METHOD(JournalFixture,
                 "an admitted record fits up to the last byte, and one byte more is put off") {
  open();
  // The room of both segments, minus what a frame may leave unused at the end of the first.
  const std::uint64_t room = 2 * test::small_segment_room - test::small_segment_bytes / 8;
  CHECK(log().admit(room + 1) == Admission::later);
  REQUIRE(log().admit(room) == Admission::granted);
  std::uint64_t recorded = 0;
  // Frames of the length that leaves the most bytes unused.
  constexpr std::size_t count = 119;
  for (; recorded + test::add_bytes(count) <= room; recorded += test::add_bytes(count)) {
    log().begin_add();
    log().added(key, test::fingerprints_from(0, count));
  }
  for (; recorded + test::add_bytes(1) <= room; recorded += test::add_bytes(1)) {
    log().begin_add();
    log().added(key, test::fingerprints_from(0, 1));
  }
  CHECK(journal->position() == recorded);
}

TEST_CASE_METHOD(JournalFixture, "a request larger than all prepared segments gets as many as it needs") {
  open();
  constexpr std::uint64_t bytes = 10 * test::small_segment_bytes;
  CHECK(log().admit(bytes) == Admission::later);
  journal->work();
  REQUIRE(log().admit(bytes) == Admission::granted);
  constexpr std::size_t count = 100;
  constexpr std::uint64_t adds = bytes / test::add_bytes(count);
  for (std::uint64_t i = 0; i < adds; ++i) {
    log().begin_add();
    log().added(key, test::fingerprints_from(i * count, count));
  }
  CHECK(added() == test::numbers_from(0, adds * count));
}

TEST_CASE_METHOD(JournalFixture, "a worker's reserved room is not given to another worker") {
  open(test::small_journal, 0, 3);
  const std::uint64_t half = test::small_segment_bytes;
  REQUIRE(log(0).admit(half) == Admission::granted);
  CHECK(log(1).admit(half) == Admission::later);
  std::uint64_t others = 0;
  while (add(0, 10, 2)) ++others;
  CHECK(others > 10);
  for (std::uint64_t recorded = 0; recorded + test::add_bytes(10) <= half; recorded += test::add_bytes(10)) {
    log(0).begin_add();
    log(0).added(key, test::fingerprints_from(0, 10));
  }
  CHECK(segments().size() == 2);
}

TEST_CASE_METHOD(JournalFixture, "an admission counts the bytes that wait for the commit") {
  open();
  const std::uint64_t room = 2 * test::small_segment_room - test::small_segment_bytes / 8;
  REQUIRE(log().admit(room) == Admission::granted);
  log().record(keyspace::Removed{key});
  CHECK(log().admit(room) == Admission::later);
  CHECK(log().admit(room - 48) == Admission::granted);
}

TEST_CASE_METHOD(JournalFixture,
                 "on a full disk, changes are refused when the prepared segments are full, and not before") {
  open();
  disk.fill_at(0);
  REQUIRE(add(0, 10));
  journal->work();
  CHECK(journal->status().accepting);
  const std::uint64_t more = fill(10);
  CHECK(more > 100);
  CHECK(log().admit(test::add_bytes(10)) == Admission::refused);
  const JournalStatus status = journal->status();
  CHECK_FALSE(status.accepting);
  CHECK(status.refusal.find("No space left on device") != std::string::npos);
  CHECK(status.failed_syncs == 0);

  journal->work();
  CHECK(log().admit(1) == Admission::refused);
  CHECK(journal->durable_position() == journal->position());  // a sync needs no room

  disk.free_space();
  const int before = progress_count;
  journal->work();
  CHECK(progress_count > before);
  CHECK(journal->status().accepting);
  CHECK(journal->status().refusal.empty());
  REQUIRE(add(7));
  CHECK(added().size() == 10 + more * 10 + 1);
  CHECK(asked_count == 0);
}

TEST_CASE_METHOD(JournalFixture, "a worker that waits for room is told when there will be none") {
  open();
  fill(10);
  CHECK(log().admit(test::add_bytes(10)) == Admission::later);
  disk.fill_at(0);
  const int before = progress_count;
  journal->work();
  CHECK(progress_count > before);
  CHECK_FALSE(journal->status().accepting);
  CHECK(log().admit(test::add_bytes(10)) == Admission::refused);
}

TEST_CASE_METHOD(JournalFixture, "a segment whose name cannot be made durable is not used") {
  REQUIRE(disk.make_directory("d"));
  disk.restart_count();
  disk.set_observer([&](const char* operation, const Path&) {
    if (std::string(operation) == "sync_directory") disk.fail_at(disk.operation_count() + 1, Errc::io);
  });
  const auto opened = try_open();
  REQUIRE(!opened);
  CHECK(opened.error().code == Errc::io);
  disk.set_observer({});
  CHECK(names().empty());
}

TEST_CASE_METHOD(JournalFixture, "a journal that cannot begin reports the reason") {
  disk.fill_at(0);
  open();
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find("No space left on device") != std::string::npos);
  journal.reset();
  disk.free_space();
  REQUIRE(disk.remove_tree("d"));
  const auto missing = try_open();
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
}

TEST_CASE_METHOD(JournalFixture, "a new segment's number is above all existing ones") {
  disk.put("d/journal-000000000041", {std::byte{1}});
  disk.put("d/journal-000000000007", {std::byte{1}});
  disk.put("d/journal-x", {std::byte{1}});
  open();
  REQUIRE(add(1));
  CHECK(segments().at(0).number == 42);
  CHECK(journal->status().segment_count == 4);
  CHECK(disk.files().at("d/journal-000000000041") == test::Bytes{std::byte{1}});
}

TEST_CASE_METHOD(JournalFixture,
                 "the frames of the last process are synced before the journal relies on them") {
  open();
  REQUIRE(add(1));
  journal.reset();
  disk.put("d/journal-000000000001", disk.files().at("d/journal-000000000001"));
  auto file = disk.create("d/journal-000000000009");
  REQUIRE((*file)->write_at(0, format::bytes_of(std::string_view("old"))));
  open();
  REQUIRE(disk.sync_directory("d"));
  disk.crash(test::Survival::synced, 1);
  CHECK(disk.files().at("d/journal-000000000009").size() == 3);
}

TEST_CASE_METHOD(JournalFixture, "segments are removed when a generation has their changes, and not before") {
  disk.put("d/journal-000000000001", {std::byte{1}});
  open(test::small_journal, 100);
  REQUIRE(add(1));
  journal->generation_saved(99);
  journal->work();
  CHECK(disk.files().contains("d/journal-000000000001"));
  journal->generation_saved(100);
  journal->work();
  CHECK_FALSE(disk.files().contains("d/journal-000000000001"));

  while (segments().size() < 3) {
    if (!add(1, 10)) journal->work();
  }
  journal->work();
  const std::uint64_t second = segments()[1].first_position;
  const std::uint64_t third = segments()[2].first_position;
  journal->generation_saved(third - 1);
  journal->work();
  CHECK(segments().front().first_position == second);
  journal->generation_saved(third);
  journal->work();
  CHECK(segments().front().first_position == third);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(segments().size() == 1);  // the active one
}

TEST_CASE_METHOD(JournalFixture, "the removal of a segment that failed is repeated after the next save") {
  disk.put("d/journal-000000000001", {std::byte{1}});
  open(test::small_journal, 100);
  journal->generation_saved(100);
  disk.fail_at(disk.operation_count() + 1, Errc::io);
  journal->work();
  CHECK(disk.files().contains("d/journal-000000000001"));
  REQUIRE(add(1));
  journal->generation_saved(journal->position());
  journal->work();
  CHECK_FALSE(disk.files().contains("d/journal-000000000001"));
}

TEST_CASE_METHOD(JournalFixture, "a stop syncs everything and removes the prepared segments") {
  open();
  REQUIRE(add(1));
  REQUIRE(journal->stop());
  REQUIRE(journal->stop());
  CHECK(journal->durable_position() == journal->position());
  CHECK(names() == std::vector<std::string>{"SYNCED", "journal-000000000001"});
  disk.crash(test::Survival::synced, 1);
  CHECK(added() == test::numbers_from(1, 1));
}

TEST_CASE_METHOD(JournalFixture,
                 "a journal with the largest segment number is refused, and the error names the segment") {
  const std::string last = format::segment_name(format::segment_number_max);
  disk.put(Path("d") / last, {});
  const auto opened = try_open();
  REQUIRE(!opened);
  CHECK(opened.error().code == Errc::io);
  CHECK(opened.error().detail.find(last) != std::string::npos);
}

}  // namespace journal_room_test
