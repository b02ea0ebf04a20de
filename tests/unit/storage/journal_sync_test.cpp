// Durability: policies, syncs, and failed syncs.
#include "support/journal_fixture.hpp"

namespace journal_sync_test {

using namespace sepal;
using namespace sepal::storage;
using keyspace::Admission;
using namespace test;

namespace {

bool page_ended(std::uint64_t position) {
  return (position + sizeof(format::SegmentHeader)) % test::simulated_page_bytes == 0;
}

void fail_next_operation(test::SimulatedDisk& disk) {
  disk.fail_at(disk.operation_count() + 1, Errc::io);
}

}  // namespace

TEST_CASE_METHOD(JournalFixture, "synced frames survive, and others may be lost") {
  open();
  REQUIRE(add(1));
  CHECK(journal->durable_position() == 0);
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  CHECK(journal->status().syncs == 1);
  REQUIRE(add(2));
  CHECK(journal->durable_position() < journal->position());
  disk.crash(Survival::synced, 1);
  CHECK(added() == test::numbers_from(1, 1));
}

TEST_CASE_METHOD(JournalFixture, "one sync serves all waiting clients") {
  open(test::with_policy(JournalPolicy::always), 0, 3);
  std::uint64_t highest = 0;
  for (std::size_t worker = 0; worker < 3; ++worker) {
    REQUIRE(add(worker, 1, worker));
    highest = log(worker).seal_record(false);
  }
  REQUIRE(journal->status().syncs == 0);
  const int before = progress_count;
  journal->work();
  CHECK(progress_count > before);
  CHECK(journal->status().syncs == 1);
  CHECK(journal->durable_position() >= highest);
  journal->work();
  CHECK(journal->status().syncs == 1);  // nothing new
}

TEST_CASE_METHOD(JournalFixture, "a sync fills up the page, so that no synced page is written again") {
  open();
  for (std::uint64_t round = 0; round < 3; ++round) {
    REQUIRE(add(round));
    journal->work();
    CHECK(page_ended(journal->position()));
    CHECK(journal->durable_position() == journal->position());
  }
  const auto frames = segments().at(0).frames;
  REQUIRE(frames.size() == 6);
  CHECK_FALSE(frames[0].filler);
  CHECK(frames[1].filler);
  CHECK(added() == test::numbers_from(0, 3));
  CHECK(journal->status().frames == 3);
}

TEST_CASE_METHOD(JournalFixture, "if a page has no room for a filler, the filler ends the next page") {
  for (const std::uint64_t left :
       {std::uint64_t{8}, std::uint64_t{16}, std::uint64_t{24}, std::uint64_t{32}}) {
    INFO("left " << left);
    JournalFixture fixture;
    fixture.open();
    // As many frames of 56 and of 64 bytes as necessary.
    const std::uint64_t aim = test::simulated_page_bytes - sizeof(format::SegmentHeader) - left;
    std::uint64_t sixty_fours = 0;
    while ((aim - sixty_fours * 64) % 56 != 0) ++sixty_fours;
    const auto add_named = [&](std::string_view name) {
      REQUIRE(fixture.log().admit(64) == Admission::granted);
      fixture.log().begin_add();
      fixture.log().added({.database = 0, .key = name}, test::fingerprints_from(0, 1));
    };
    for (std::uint64_t i = 0; i < sixty_fours; ++i) add_named("12345678");
    while (fixture.journal->position() < aim) add_named("");
    REQUIRE(fixture.journal->position() == aim);
    fixture.journal->work();
    CHECK(page_ended(fixture.journal->position()));
    CHECK(fixture.journal->position() - aim == (left < 32 ? left + test::simulated_page_bytes : left));
    CHECK(fixture.segments().at(0).end_position == fixture.journal->position());
  }
}

TEST_CASE_METHOD(JournalFixture, "a filler takes no reserved room") {
  open();
  const std::uint64_t room = 2 * test::small_segment_room - test::small_segment_bytes / 8;
  REQUIRE(log().admit(room) == Admission::granted);
  log().begin_add();
  log().added(key, test::fingerprints_from(0, 1));
  const std::uint64_t before = journal->position();
  // The disk is full, so there is no further segment.
  disk.fill_at(0);
  journal->work();
  CHECK(journal->position() == before);
  CHECK(journal->durable_position() == before);
}

TEST_CASE_METHOD(JournalFixture, "a sync covers all written segments") {
  open();
  fill(10);
  REQUIRE(segments().size() == 2);
  const auto all = added();
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  disk.crash(Survival::synced, 1);
  CHECK(added() == all);
}

TEST_CASE_METHOD(JournalFixture, "every frame says how far the journal was synced when it was written") {
  open(test::small_journal, 1000);
  REQUIRE(add(1));
  journal->work();
  const std::uint64_t synced = journal->durable_position();
  REQUIRE(add(2));
  const auto frames = segments().at(0).frames;
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].synced_position == 1000);
  CHECK(frames[2].synced_position == synced);
  CHECK(frames[2].position == synced);
}

TEST_CASE_METHOD(JournalFixture,
                 "after a failed sync changes are refused until a generation has everything") {
  open(test::with_policy(JournalPolicy::always));
  REQUIRE(add(1));
  journal->work();
  const std::uint64_t durable = journal->durable_position();
  REQUIRE(add(2));
  const std::uint64_t cut_before = journal->position();
  REQUIRE(add(3));

  fail_next_operation(disk);
  journal->work();
  CHECK(asked_count == 0);  // a round of work makes the callbacks that were due at its beginning
  journal->work();
  CHECK(asked_count == 1);
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find("cannot sync") != std::string::npos);
  CHECK(journal->status().failed_syncs == 1);
  CHECK(log().admit(1) == Admission::refused);
  CHECK(journal->durable_position() == durable);

  // The next sync would succeed, but prove nothing.
  journal->work();
  CHECK(journal->durable_position() == durable);
  CHECK(asked_count == 1);

  journal->generation_saved(cut_before);
  journal->work();
  CHECK(journal->durable_position() == cut_before);
  CHECK_FALSE(journal->status().accepting);

  const std::uint64_t cut = journal->position();
  const int before = progress_count;
  journal->generation_saved(cut);
  CHECK(journal->durable_position() == cut);
  journal->work();
  CHECK(progress_count > before);
  CHECK(journal->status().accepting);
  REQUIRE(add(4));
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  CHECK(asked_count == 1);

  // There is a new segment. The ones before the failed sync are gone.
  REQUIRE(segments().size() == 1);
  CHECK(segments()[0].first_position == cut);
  CHECK(segments()[0].number > 3);
  disk.crash(Survival::synced, 1);
  REQUIRE(segments().back().first_position == cut);
  CHECK(added().back() == 4);
}

TEST_CASE_METHOD(JournalFixture, "changes that were admitted before a sync failed are still recorded") {
  open(test::small_journal, 0, 2);
  REQUIRE(log(1).admit(test::small_segment_bytes) == Admission::granted);
  REQUIRE(add(1));
  fail_next_operation(disk);
  journal->work();
  const std::uint64_t cut_before = journal->position();
  log(1).begin_add();
  log(1).added(key, test::fingerprints_from(2, 1));
  CHECK(added() == test::numbers_from(1, 2));

  // A generation that was cut before does not have the change.
  journal->generation_saved(cut_before);
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
  // The worker can still use its reserved room.
  for (std::uint64_t recorded = test::add_bytes(1);
       recorded + test::add_bytes(10) <= test::small_segment_bytes; recorded += test::add_bytes(10)) {
    log(1).begin_add();
    log(1).added(key, test::fingerprints_from(0, 10));
  }
}

TEST_CASE_METHOD(JournalFixture,
                 "after a failed sync, the thread tries to make new segments until there is space") {
  open();
  REQUIRE(add(1));
  fail_next_operation(disk);
  journal->work();
  disk.fill_at(0);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  disk.free_space();
  journal->work();
  CHECK(journal->status().accepting);
  CHECK(add(2));
}

TEST_CASE_METHOD(
    JournalFixture,
    "a removed data directory is a failed sync, and the journal recovers when it is there again") {
  open();
  REQUIRE(add(1));
  REQUIRE(disk.remove_tree("d"));
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find("was removed while in use") != std::string::npos);
  journal->work();
  CHECK(asked_count > 0);
  REQUIRE(disk.make_directory("d"));
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
  REQUIRE(add(2));
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  CHECK(added() == test::numbers_from(2, 1));
}

TEST_CASE_METHOD(JournalFixture,
                 "in a replaced data directory, the journal refuses changes until a save has them all") {
  open();
  REQUIRE(add(1));
  journal->work();
  REQUIRE(disk.remove_tree("d"));
  REQUIRE(disk.make_directory("d"));
  journal->directory_replaced();
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find("the data directory was replaced") != std::string::npos);
  CHECK_FALSE(add(2));
  journal->work();
  // The caller saves.
  CHECK(asked_count == 0);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
  REQUIRE(add(3));
  journal->work();
  CHECK(added() == test::numbers_from(3, 1));
  journal->set_policy(JournalPolicy::off);
  journal->directory_replaced();
  CHECK(journal->status().accepting);
}

TEST_CASE_METHOD(JournalFixture,
                 "in a replaced data directory, a save that ended in the one before is not enough") {
  open();
  REQUIRE(add(1));
  journal->work();
  journal->generation_saved(journal->position());
  journal->work();
  REQUIRE(disk.remove_tree("d"));
  REQUIRE(disk.make_directory("d"));
  journal->directory_replaced();
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
}

TEST_CASE_METHOD(JournalFixture, "a stop reports a failed last sync, unless a generation has everything") {
  SECTION("it says so") {
    open();
    REQUIRE(add(1));
    fail_next_operation(disk);
    const auto stopped = journal->stop();
    REQUIRE(!stopped);
    CHECK(stopped.error().code == Errc::io);
    CHECK(!journal->stop());
  }
  SECTION("unless") {
    open();
    REQUIRE(add(1));
    fail_next_operation(disk);
    journal->work();
    journal->generation_saved(journal->position());
    CHECK(journal->stop());
  }
}

TEST_CASE_METHOD(
    JournalFixture,
    "after the journal is switched on, the first frame says so, and nothing is durable before a save") {
  open(test::with_policy(JournalPolicy::off), 100);
  journal->set_policy(JournalPolicy::always);
  CHECK(log().recording());
  // There is no segment yet.
  CHECK(log().admit(1) == Admission::later);
  journal->work();
  journal->work();
  CHECK(asked_count == 1);
  const std::uint64_t resumed = journal->position();
  CHECK(resumed > 100);
  REQUIRE(add(1));
  REQUIRE(operations().size() == 2);
  CHECK(operations()[0].operation == format::Operation::resumed);
  CHECK(segments().at(0).first_position == 100);
  CHECK(journal->gap() > 100);
  CHECK(journal->gap() <= resumed);

  journal->work();
  CHECK(journal->status().synced_position == journal->position());
  CHECK(journal->durable_position() == 100);
  journal->generation_saved(100);  // it lacks changes that were made later, while the journal was off
  CHECK(journal->durable_position() == 100);
  journal->generation_saved(resumed);
  CHECK(journal->durable_position() == journal->position());
  const int asked = asked_count;
  journal->work();
  CHECK(asked_count == asked);
}

TEST_CASE_METHOD(JournalFixture, "policies change at once, and records before off are synced") {
  open();
  REQUIRE(add(1));
  journal->set_policy(JournalPolicy::off);
  CHECK_FALSE(log().recording());
  CHECK(journal->status().policy == JournalPolicy::off);
  journal->work();
  CHECK(journal->durable_position() == journal->position());

  // The gate is closed, so workers' reserves do not count.
  journal->set_policy(JournalPolicy::everysec);
  CHECK(operations().back().operation == format::Operation::resumed);
  REQUIRE(add(2));
  CHECK(operations().size() == 3);
  journal->set_policy(JournalPolicy::always);
  REQUIRE(add(3));
  CHECK(operations().size() == 4);
}

TEST_CASE_METHOD(JournalFixture, "a journal without room resumes as soon as there is room") {
  open();
  disk.fill_at(0);
  fill(1);
  // The rest is too small for a segment and for the frame.
  while (test::small_segment_room * 2 - journal->position() > 200 && add(0)) {
  }
  journal->set_policy(JournalPolicy::off);
  CHECK(journal->status().accepting);
  journal->work();
  const std::uint64_t before = journal->position();
  journal->set_policy(JournalPolicy::everysec);
  if (journal->position() == before) {
    CHECK(log().admit(1) != Admission::granted);
    disk.free_space();
    journal->work();
    CHECK(operations().back().operation == format::Operation::resumed);
  }
  disk.free_space();
  journal->work();
  CHECK(add(1));
}

TEST_CASE_METHOD(JournalFixture, "a journal that is switched off while it gets its segment resumes later") {
  open(test::with_policy(JournalPolicy::off));
  journal->set_policy(JournalPolicy::everysec);
  REQUIRE(journal->status().resumes);
  // The thread makes the first segment, and meanwhile a client switches the journal off.
  disk.set_observer([&](const char* operation, const Path&) {
    if (std::string_view(operation) == "create_mapped") journal->set_policy(JournalPolicy::off);
  });
  journal->work();
  disk.set_observer({});
  CHECK_FALSE(journal->status().resumes);
  CHECK(operations().empty());
  CHECK(asked_count == 0);

  journal->set_policy(JournalPolicy::everysec);
  journal->work();
  REQUIRE(add(1));
  REQUIRE(operations().size() == 2);
  CHECK(operations()[0].operation == format::Operation::resumed);
  CHECK(operations()[1].operation == format::Operation::added);
  CHECK(asked_count == 1);
}

TEST_CASE_METHOD(JournalFixture, "switching the journal off and on does not repair a failed sync") {
  open();
  REQUIRE(add(1));
  fail_next_operation(disk);
  journal->work();
  const std::uint64_t cut = journal->position();
  journal->set_policy(JournalPolicy::off);
  CHECK(journal->status().accepting);
  journal->set_policy(JournalPolicy::everysec);
  CHECK_FALSE(journal->status().accepting);
  CHECK(log().admit(1) == Admission::refused);
  // This generation was cut before the journal was switched on again.
  journal->generation_saved(cut);
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
}

TEST_CASE_METHOD(JournalFixture, "a worker that waits for a generation is told when it is current") {
  open(test::with_policy(JournalPolicy::off));
  journal->set_policy(JournalPolicy::always);
  journal->work();
  REQUIRE(add(1));
  const std::uint64_t awaited = log().seal_record(false);
  journal->work();
  REQUIRE(journal->durable_position() < awaited);
  const int before = progress_count;
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->durable_position() >= awaited);
  CHECK(progress_count > before);
}

TEST_CASE_METHOD(JournalFixture,
                 "waiting workers are told of a generation even without space for new segments") {
  open(test::with_policy(JournalPolicy::always));
  REQUIRE(add(1));
  fail_next_operation(disk);
  journal->work();
  disk.fill_at(0);
  const int before = progress_count;
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  CHECK_FALSE(journal->status().accepting);
  CHECK(progress_count > before);
}

TEST_CASE_METHOD(JournalFixture, "switched off after a failed sync, the journal needs one generation") {
  open(test::with_policy(JournalPolicy::always));
  REQUIRE(add(1));
  fail_next_operation(disk);
  journal->work();
  journal->set_policy(JournalPolicy::off);
  journal->work();
  const int asked = asked_count;
  CHECK(asked > 0);
  const int before = progress_count;
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(progress_count > before);
  CHECK(asked_count == asked);
  journal->set_policy(JournalPolicy::always);
  journal->work();
  CHECK(asked_count == asked + 1);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
  CHECK(add(2));
}

TEST_CASE_METHOD(JournalFixture, "a worker that waits for room is told when the journal is switched off") {
  open();
  REQUIRE(log().admit(4 * test::small_segment_bytes) == Admission::later);
  const int before = progress_count;
  journal->set_policy(JournalPolicy::off);
  journal->work();
  CHECK(progress_count > before);
}

}  // namespace journal_sync_test
