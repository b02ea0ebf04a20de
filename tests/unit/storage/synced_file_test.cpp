// SYNCED says how far the journal was on disk. These tests check its bytes, when it is written, and that a
// start refuses a journal that ends earlier.
#include <sepal/base/gate.hpp>

#include "support/journal_fixture.hpp"
#include "support/replayed.hpp"

namespace synced_file_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

const Path path = "d/SYNCED";

SyncedMark mark_at(std::uint64_t position) {
  return {.segment_number = 3, .first_position = 16, .position = position};
}

void make_directory(SimulatedDisk& disk) {
  REQUIRE(disk.make_directory("d"));
  REQUIRE(disk.sync_directory(""));
}

SyncedMark read(SimulatedDisk& disk) {
  const auto mark = read_synced(disk, path);
  INFO((mark ? "" : mark.error().detail));
  REQUIRE(mark);
  REQUIRE(*mark);
  return **mark;
}

// A file whose slots say 100 and 200.
Bytes two_marks() {
  SimulatedDisk disk;
  make_directory(disk);
  SyncedFile file(disk, "d");
  for (const std::uint64_t position : {50, 100, 200}) REQUIRE(file.write(mark_at(position)));
  return disk.files().at(path.string());
}

Result<std::optional<SyncedMark>> read_bytes(const Bytes& bytes) {
  SimulatedDisk disk;
  disk.put(path, bytes);
  return read_synced(disk, path);
}

}  // namespace

TEST_CASE("SYNCED holds the last mark, and a missing file holds none") {
  SimulatedDisk disk;
  make_directory(disk);
  const auto none = read_synced(disk, path);
  REQUIRE(none);
  CHECK_FALSE(*none);
  SyncedFile file(disk, "d");
  for (const std::uint64_t position : {100, 200, 300, 400}) {
    REQUIRE(file.write(mark_at(position)));
    CHECK(read(disk) == mark_at(position));
  }
  CHECK(disk.files().at(path.string()).size() == format::synced_file_bytes);
  disk.crash(Survival::synced, 1);
  CHECK(read(disk) == mark_at(400));
}

TEST_CASE("if one slot of SYNCED is wrong anywhere, the other slot counts") {
  const Bytes whole = two_marks();
  for (std::size_t at = 0; at < sizeof(format::SyncedSlot); ++at) {
    for (const std::size_t slot : {0, 1}) {
      Bytes bytes = whole;
      bytes[format::synced_slot_offsets[slot] + at] ^= std::byte{0x20};
      const auto mark = read_bytes(bytes);
      REQUIRE(mark);
      REQUIRE(*mark);
      const bool newer_is_left = (*mark)->position == 200;
      const auto other = read_bytes(whole);
      CHECK(((*mark)->position == 100 || newer_is_left));
      CHECK((*other)->position == 200);
    }
  }
}

TEST_CASE("a SYNCED without a right slot is damaged, one of another version is unsupported") {
  for (const Bytes& bytes : {Bytes(), Bytes(10), Bytes(format::synced_file_bytes)}) {
    const auto mark = read_bytes(bytes);
    REQUIRE(!mark);
    CHECK(mark.error().code == Errc::damaged);
    CHECK(mentions(mark.error(), "d/SYNCED is damaged at offset 0"));
    CHECK(mentions(mark.error(), "remove it"));
  }
  Bytes newer = two_marks();
  for (const std::uint64_t offset : format::synced_slot_offsets)
    newer[offset + offsetof(format::SyncedSlot, version)] = std::byte{format::synced_version + 1};
  const auto mark = read_bytes(newer);
  REQUIRE(!mark);
  CHECK(mark.error().code == Errc::unsupported_version);
}

TEST_CASE("a power cut at any step of writing SYNCED leaves the last mark or the next") {
  constexpr std::array<std::uint64_t, 4> positions{100, 200, 300, 400};
  for (std::uint64_t step = 0;; ++step) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SimulatedDisk disk;
      make_directory(disk);
      disk.restart_count();
      disk.lose_power_after(step);
      SyncedFile file(disk, "d");
      std::uint64_t written = 0;
      for (const std::uint64_t position : positions)
        if (file.write(mark_at(position))) written = position;
      const std::uint64_t operations = disk.operation_count();
      disk.crash(Survival::chance, seed);
      const auto mark = read_synced(disk, path);
      INFO("step " << step << " seed " << seed << (mark ? "" : mark.error().detail));
      REQUIRE(mark);
      const std::uint64_t found = *mark ? (*mark)->position : 0;
      CHECK((found == written || found == written + 100));
      if (step > operations) return;
    }
  }
}

TEST_CASE("SYNCED is written again after an error, and holds the old or the new mark meanwhile") {
  for (std::uint64_t step = 1;; ++step) {
    SimulatedDisk disk;
    make_directory(disk);
    SyncedFile file(disk, "d");
    REQUIRE(file.write(mark_at(100)));
    disk.restart_count();
    disk.fail_at(step, Errc::io);
    const bool failed = !file.write(mark_at(200));
    disk.stop_failing();
    const std::uint64_t found = read(disk).position;
    CHECK((found == 200 || (failed && found == 100)));
    REQUIRE(file.write(mark_at(300)));
    disk.crash(Survival::synced, step);
    CHECK(read(disk) == mark_at(300));
    if (!failed) break;
  }
}

// --- written by the journal -------------------------------------------------------------------------------

TEST_CASE_METHOD(JournalFixture, "after a sync, SYNCED has the durable position and the segment in use") {
  open();
  CHECK_FALSE(disk.files().contains("d/SYNCED"));
  REQUIRE(add(1));
  journal->work();
  const SyncedMark first = read(disk);
  CHECK(first ==
        SyncedMark{.segment_number = 1, .first_position = 0, .position = journal->durable_position()});
  fill(10);
  journal->work();
  const SyncedMark second = read(disk);
  CHECK(second.position == journal->durable_position());
  CHECK(second.segment_number == segments().back().number);
  CHECK(second.first_position == segments().back().first_position);
  // A sync without new frames does not write SYNCED.
  const std::uint64_t before = disk.operation_count();
  journal->work();
  CHECK(disk.operation_count() == before);
}

TEST_CASE_METHOD(JournalFixture, "a start and a stop record in SYNCED all that they synced") {
  open();
  REQUIRE(add(1));
  const std::uint64_t unsynced = journal->position();
  auto killed = disk.crashed_copy(Survival::all, 1);
  auto next = Journal::open(*killed, directory, unsynced, 1, test::small_journal, {});
  REQUIRE(next);
  (*next)->work();
  CHECK(read(*killed) == SyncedMark{.segment_number = 1, .first_position = 0, .position = unsynced});
  REQUIRE((*next)->stop());
  REQUIRE(journal->stop());
  CHECK(read(disk).position == journal->durable_position());
}

TEST_CASE_METHOD(JournalFixture, "if SYNCED cannot be written, the server goes on, and writes it later") {
  open();
  bool fails = true;
  disk.set_observer([&](std::string_view, const Path& of) {
    if (fails && (of.filename() == "SYNCED" || is_aside_name(of.filename().string())))
      disk.fail_at(disk.operation_count() + 1, Errc::io);
  });
  for (std::uint64_t item = 1; item < 5; ++item) {
    REQUIRE(add(item));
    journal->work();
    CHECK(journal->durable_position() == journal->position());
    CHECK(journal->status().accepting);
    CHECK_FALSE(disk.files().contains("d/SYNCED"));
  }
  fails = false;
  disk.stop_failing();
  journal->work();
  CHECK(read(disk).position == journal->durable_position());
}

TEST_CASE_METHOD(JournalFixture,
                 "SYNCED names no position after a gap until a generation has closed the gap") {
  open();
  REQUIRE(add(1));
  journal->work();
  const std::uint64_t durable = journal->durable_position();
  journal->set_policy(JournalPolicy::off);
  journal->set_policy(JournalPolicy::everysec);
  REQUIRE(add(2));
  journal->work();
  journal->work();
  CHECK(read(disk).position == durable);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(read(disk).position == journal->position());
}

// --- compared by a start ----------------------------------------------------------------------------------

namespace {

// Two segments, the last one in use, and SYNCED.
struct Marked {
  Sample sample{3};
  std::uint64_t second_position = 0;

  Marked() {
    sample.journal.begin_segment();
    second_position = sample.journal.position();
    for (std::uint64_t item = 3; item < 6; ++item) test::add(sample.journal, item);
    sample.journal.mark();
  }
};

}  // namespace

TEST_CASE("a start refuses a journal whose last segment was cut, zeroed or removed after it was on disk") {
  const std::string last = "journal-000000000002";
  struct Loss {
    std::string said;
    std::function<void(JournalFiles&)> lose;
  };
  std::vector<Loss> losses{{"is not there", [&](JournalFiles& journal) { journal.files().erase(last); }},
                           {"has lost its beginning", [&](JournalFiles& journal) {
                              std::ranges::fill(journal.files().at(last), std::byte{0});
                            }}};
  for (std::size_t length = 0; length < sizeof(format::SegmentHeader); ++length)
    losses.push_back({"has lost its beginning",
                      [&last, length](JournalFiles& journal) { journal.files().at(last).resize(length); }});
  for (const Loss& loss : losses) {
    Marked marked;
    const std::uint64_t missing = marked.sample.journal.position() - marked.second_position;
    loss.lose(marked.sample.journal);
    const auto replayed = replay(marked.sample.journal);
    REQUIRE(replayed->error);
    CHECK(replayed->error->code == Errc::damaged);
    CHECK(mentions(*replayed->error, "data/" + last + " " + loss.said));
    CHECK(mentions(*replayed->error, "ends at position " + std::to_string(marked.second_position)));
    CHECK(mentions(*replayed->error, ": up to " + std::to_string(missing) + " bytes are missing"));
    CHECK(mentions(*replayed->error, "sepal salvage"));
    CHECK(mentions(*replayed->error, "remove data/SYNCED"));
  }
}

TEST_CASE("a start refuses a journal without segments, and one whose last frames are zeros") {
  Marked marked;
  const auto whole = replay(marked.sample.journal);
  REQUIRE_FALSE(whole->error);
  CHECK(whole->items() == 6);

  JournalFiles torn = marked.sample.journal;
  const std::size_t frame = 2 * static_cast<std::size_t>(test::add_bytes(1));
  Bytes& newest = torn.files().at("journal-000000000002");
  std::fill(newest.begin() + static_cast<std::ptrdiff_t>(torn.used() - frame), newest.end(), std::byte{0});
  const auto zeros = replay(torn);
  REQUIRE(zeros->error);
  CHECK(mentions(*zeros->error,
                 "journal-000000000002 is damaged at offset " + std::to_string(torn.used() - frame)));
  CHECK(mentions(*zeros->error, ": up to " + std::to_string(frame) + " bytes are missing"));

  std::erase_if(marked.sample.journal.files(),
                [](const auto& file) { return file.first.starts_with("journal-"); });
  const auto gone = replay(marked.sample.journal);
  REQUIRE(gone->error);
  CHECK(mentions(*gone->error, "data/journal-000000000002 is not there"));
  CHECK(mentions(*gone->error, "ends at position 0"));
}

TEST_CASE("SYNCED does not complain about a tail that had not got to the disk") {
  Sample sample(3);
  sample.journal.mark();
  test::add(sample.journal, 3);
  sample.newest()[sample.journal.used() - 8] ^= std::byte{1};
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 3);
  CHECK(replayed->report.cut_bytes > 0);
}

TEST_CASE("a generation that was cut at or after the position in SYNCED needs no segment") {
  Marked marked;
  const std::uint64_t position = marked.sample.journal.position();
  std::erase_if(marked.sample.journal.files(),
                [](const auto& file) { return file.first.starts_with("journal-"); });
  CHECK(replay(marked.sample.journal, {.cut = position - 1, .positions = {}})->error);
  for (const std::uint64_t cut : {position, position + 8})
    CHECK_FALSE(replay(marked.sample.journal, {.cut = cut, .positions = {}})->error);
}

TEST_CASE("if the journal was off before the position in SYNCED, a generation is missing") {
  Sample sample(2);
  sample.journal.resumed();
  sample.journal.end_frame();
  test::add(sample.journal, 3);
  CHECK_FALSE(replay(sample.journal)->error);
  sample.journal.mark();
  const auto replayed = replay(sample.journal);
  REQUIRE(replayed->error);
  CHECK(mentions(*replayed->error, "bytes are missing"));
}

}  // namespace synced_file_test
