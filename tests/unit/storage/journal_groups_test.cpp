// Groups of frames: what one transaction changed, as a worker's log records it.

#include "storage/format/operation_encoder.hpp"
#include "storage/format/synced_file.hpp"
#include "support/journal_fixture.hpp"

namespace journal_groups_test {

using namespace sepal;
using namespace sepal::storage;
using keyspace::Admission;
using namespace test;

namespace {

JournalOptions smallest_segments() {
  JournalOptions options = test::small_journal;
  options.segment_bytes = journal_segment_bytes_min;
  options.first_segment_bytes = options.segment_bytes;
  return options;
}

// Removals of keys of this length: each takes its own key in the frame, because no two keys are the same.
std::string name_of(std::uint64_t index, std::size_t key_bytes) {
  std::string name = std::to_string(index);
  return name + std::string(key_bytes - name.size(), 'k');
}

std::uint64_t frame_of_removal(std::size_t key_bytes) {
  return format::frame_bytes(sizeof(format::OperationHead) + key_bytes);
}

class Groups : public JournalFixture {
 public:
  // Admits so many bytes. The thread makes the room that is missing.
  void admit(std::uint64_t bytes, std::size_t worker = 0) const {
    Admission admission = log(worker).admit(bytes);
    for (int tries = 0; admission == Admission::later && tries < 10; ++tries) {
      journal->work();
      admission = log(worker).admit(bytes);
    }
    REQUIRE(admission == Admission::granted);
  }
  void remove(const std::string& name) {
    log().record(keyspace::Removed{{.database = 0, .key = name}});
    names_recorded.push_back(name);
  }
  void remove_many(std::size_t count, std::size_t key_bytes) {
    for (std::size_t i = 0; i < count; ++i) remove(name_of(names_recorded.size(), key_bytes));
  }
  // One group, admitted to the byte. Returns its position.
  std::uint64_t group_of(std::size_t count, std::size_t key_bytes) {
    admit(count * frame_of_removal(key_bytes));
    const std::uint64_t begun = journal->position();
    log().begin_group();
    remove_many(count, key_bytes);
    log().end_group();
    return begun;
  }

  // The frames of all segments, without fillers.
  [[nodiscard]] std::vector<JournalFrame> frames() const {
    std::vector<JournalFrame> all;
    for (const test::JournalFile& segment : segments())
      for (const JournalFrame& frame : segment.frames)
        if (!frame.filler) all.push_back(frame);
    return all;
  }
  [[nodiscard]] std::vector<std::string> names_in_journal() const {
    std::vector<std::string> names;
    for (const JournalOperation& operation : operations()) names.push_back(operation.key);
    return names;
  }

  std::vector<std::string> names_recorded;
};

std::size_t count_continuing(const std::vector<JournalFrame>& frames) {
  return static_cast<std::size_t>(std::ranges::count(frames, true, &JournalFrame::continues));
}

// The frames from one position on are one group: all but the last continue, and each names what was synced
// before the group.
void require_group(const std::vector<JournalFrame>& frames, std::uint64_t from) {
  const auto first = std::ranges::find(frames, from, &JournalFrame::position);
  REQUIRE(first != frames.end());
  for (auto frame = first; frame != frames.end(); ++frame) {
    REQUIRE(frame->continues == (frame + 1 != frames.end()));
    REQUIRE(frame->synced_position <= from);
  }
}

}  // namespace

TEST_CASE_METHOD(Groups, "a group that fits into one frame shares it with the operations around it") {
  open();
  admit(test::small_segment_bytes / 64);
  remove("before");
  log().begin_group();
  const std::uint64_t begun = journal->position();
  remove("within");
  log().begin_add();
  log().added(key, test::fingerprints_from(0, 2));
  log().record(keyspace::Flushed{4});
  CHECK(journal->position() == begun);
  log().end_group();
  remove("after");
  log().commit();
  REQUIRE(frames().size() == 1);
  CHECK(count_continuing(frames()) == 0);
  REQUIRE(frames()[0].operations.size() == 5);
  CHECK(frames()[0].operations[2].fingerprints == test::fingerprints_from(0, 2));
}

TEST_CASE_METHOD(Groups, "adds within a group stay in it; an add behind it is a frame of its own") {
  open();
  admit(10'000);
  log().begin_group();
  for (std::uint64_t item = 0; item < 3; ++item) {
    log().begin_add();
    log().added(key, test::fingerprints_from(item, 1));
  }
  CHECK(journal->position() == 0);
  log().end_group();
  log().commit();
  CHECK(journal->position() == test::add_bytes(3));
  REQUIRE(add(3));
  REQUIRE(add(4));
  CHECK(added() == test::numbers_from(0, 5));
  CHECK(frames().size() == 3);
  CHECK(count_continuing(frames()) == 0);
}

// Commands of a transaction may add one item each, to a key that is as long as a key can be.
TEST_CASE_METHOD(Groups, "adds to one long key name it once for many items") {
  open(smallest_segments());
  constexpr std::size_t count = 3000;
  for (const std::size_t key_bytes : {40'000, 65'536}) {
    const std::string name(key_bytes, 'k');
    const std::uint64_t bytes = 2 * (key_bytes + keyspace::record_bytes_max) + count * sizeof(Fingerprint);
    admit(bytes);
    const std::uint64_t begun = journal->position();
    log().begin_group();
    for (std::uint64_t item = 0; item < count; ++item) {
      log().begin_add();
      log().added({.database = 0, .key = name}, test::fingerprints_from(item, 1));
    }
    log().end_group();
    log().commit();
    CHECK(journal->position() - begun <= bytes);
  }
  CHECK(added().size() == 2 * count);
}

TEST_CASE_METHOD(Groups, "a group without changes records nothing") {
  open();
  admit(1000);
  log().begin_group();
  log().end_group();
  log().begin_group();
  log().begin_add();
  log().added(key, {});
  log().end_group();
  CHECK(journal->position() == 0);
  CHECK(journal->status().frames == 0);
}

TEST_CASE_METHOD(Groups, "a group of several frames says which of them continue") {
  open(smallest_segments());
  admit(100);
  remove("before");
  log().commit();
  const std::uint64_t begun = group_of(20'000, 10);
  CHECK(journal->status().frames == 1 + count_continuing(frames()) + 1);
  CHECK(count_continuing(frames()) > 5);
  CHECK(names_in_journal() == names_recorded);
  require_group(frames(), begun);

  // A large add is divided, within the group as well.
  admit(200'000);
  const std::uint64_t added_from = journal->position();
  log().begin_group();
  log().begin_add();
  log().added(key, test::fingerprints_from(0, 10'000));
  log().end_group();
  CHECK(added() == test::numbers_from(0, 10'000));
  require_group(frames(), added_from);
}

TEST_CASE_METHOD(Groups, "a group goes on in the next segments") {
  open(smallest_segments());
  group_of(190, 10'000);
  REQUIRE(segments().size() == 1);
  const std::uint64_t begun = group_of(500, 10'000);
  REQUIRE(segments().size() == 4);
  CHECK(segments()[0].frames.back().continues);
  CHECK(segments()[1].frames.back().continues);
  CHECK(segments()[1].first_position == segments()[0].end_position);
  CHECK(names_in_journal() == names_recorded);
  require_group(frames(), begun);
}

TEST_CASE_METHOD(Groups, "nothing comes between the frames of a group, and no sync ends within it") {
  open(smallest_segments(), 0, 2);
  const auto marked = [this] {
    const auto mark = read_synced(disk, synced_path(directory));
    REQUIRE(mark);
    return *mark ? (*mark)->position : 0;
  };
  REQUIRE(add(0, 1, 1));
  admit(300 * frame_of_removal(10'000));
  log().begin_group();
  remove_many(250, 10'000);
  journal->work();
  const std::uint64_t begun = journal->position();
  CHECK(marked() == begun);
  journal->work();
  CHECK(journal->position() == begun);
  remove_many(50, 10'000);
  log().end_group();
  CHECK(marked() == begun);
  CHECK(journal->durable_position() == begun);
  std::uint64_t end = begun;
  for (const test::JournalFile& segment : segments())
    for (const JournalFrame& frame : segment.frames) {
      if (frame.position < begun) continue;
      CHECK_FALSE(frame.filler);
      end = segment.end_position;
    }
  require_group(frames(), begun);
  journal->work();
  CHECK(marked() >= end);
  CHECK(marked() == journal->position());
}

TEST_CASE_METHOD(Groups, "an admission counts the frames that wait for the end of their group") {
  open();
  const std::uint64_t room = 2 * test::small_segment_room - test::small_segment_bytes / 8;
  REQUIRE(log().admit(room) == Admission::granted);
  log().begin_group();
  remove_many(6, 1500);
  const std::uint64_t waiting = 6 * frame_of_removal(1500);
  CHECK(log().admit(room - waiting + 1) == Admission::later);
  CHECK(log().admit(room - waiting) == Admission::granted);
  log().end_group();
  CHECK(journal->position() == waiting);
}

// The end of a segment stays unused where the next frame of the group does not fit into it.
TEST_CASE_METHOD(Groups, "an admitted group fits, whatever it leaves unused at the ends of segments") {
  open();
  std::mt19937_64 random(17);
  const auto key_bytes_max =
      static_cast<std::size_t>(test::small_segment_bytes / 8) - static_cast<std::size_t>(frame_of_removal(8));
  for (int round = 0; round < 150; ++round) {
    std::vector<std::size_t> lengths(1 + random() % 60);
    std::uint64_t bytes = 0;
    for (std::size_t& length : lengths) {
      length = 8 + random() % (random() % 2 == 0 ? 100 : key_bytes_max - 8);
      bytes += frame_of_removal(length);
    }
    admit(bytes);
    log().begin_group();
    for (const std::size_t length : lengths) remove_many(1, length);
    log().end_group();
    if (random() % 4 == 0) journal->work();
  }
  CHECK(names_in_journal() == names_recorded);

  // The frames that waste the most, in as much room as there is.
  journal->work();
  std::uint64_t most = 0;
  while (log().admit(most + 64) == Admission::granted) most += 64;
  constexpr std::size_t wasteful = 1816 - 40;
  REQUIRE(most > 5 * frame_of_removal(wasteful));
  log().begin_group();
  remove_many(static_cast<std::size_t>(most / frame_of_removal(wasteful)), wasteful);
  log().end_group();
  CHECK(names_in_journal() == names_recorded);
}

TEST_CASE_METHOD(Groups, "a worker gives back what a group did not use of its room") {
  open(test::small_journal, 0, 2);
  const std::uint64_t room = 2 * test::small_segment_room - test::small_segment_bytes / 8;
  // The worker keeps at most this much of its own for later requests.
  const std::uint64_t usual = test::small_segment_bytes / 64;
  for (const std::size_t removals : {0, 1, 5}) {
    // All room is the worker's.
    std::uint64_t most = room / 2;
    while (log(0).admit(most + 8) == Admission::granted) most += 8;
    CHECK(log(1).admit(usual + 8) == Admission::later);
    log(0).begin_group();
    remove_many(removals, 1500);
    log(0).end_group();
    CHECK(log(1).admit(usual + 8) == Admission::granted);
    // Gives everything back.
    journal->set_policy(JournalPolicy::everysec);
    journal->work();
  }
}

TEST_CASE_METHOD(Groups, "a worker gives back at the end of a batch what a request did not use of its room") {
  const bool shared = GENERATE(false, true);
  open(test::small_journal, 0, 2);
  const std::uint64_t room = 2 * test::small_segment_room - test::small_segment_bytes / 8;
  const std::uint64_t usual = test::small_segment_bytes / 64;
  for (const std::size_t removals : {0, 1}) {
    std::uint64_t most = room / 2;
    while (log(0).admit(most + 8) == Admission::granted) most += 8;
    CHECK(log(1).admit(usual + 8) == Admission::later);
    if (shared) {
      const std::string name = name_of(removals, 1500);
      if (removals != 0) log(0).gather(keyspace::Removed{{.database = 0, .key = name}});
      log(0).append();
      CHECK(log(1).admit(usual + 8) == Admission::later);
      static_cast<void>(log(0).seal_record(false));
    } else {
      remove_many(removals, 1500);
      log(0).commit();
    }
    CHECK(log(1).admit(usual + 8) == Admission::granted);
    log(1).commit();
    // Gives everything back.
    journal->set_policy(JournalPolicy::everysec);
    journal->work();
  }
}

// The record of a filter in a file stands first in its frame. So what is pending before it is appended, in
// the middle of the request.
TEST_CASE_METHOD(Groups, "a request keeps its room until the commit") {
  open(test::small_journal, 0, 2);
  const std::uint64_t most = test::small_segment_room;
  admit(most);
  remove("expired");
  log().record(keyspace::Adopted{.key = key, .value = {.file = {.number = 1, .seal = 2}}});
  CHECK(log(1).admit(most) == Admission::later);
  log().commit();
  CHECK(log(1).admit(most) == Admission::granted);
}

TEST_CASE("clients that wait for room are told when a group gives some back") {
  test::SimulatedDisk disk;
  REQUIRE(disk.make_directory("d"));
  int progress_count = 0;
  const auto opened = Journal::open(disk, "d", 0, 2, test::small_journal,
                                    {.on_progress = [&] { ++progress_count; },
                                     .on_save_needed = {},
                                     .bytes_max = [] { return 5 * test::small_segment_bytes; }});
  REQUIRE(opened);
  Journal& journal = **opened;
  journal.work();
  const std::uint64_t bytes = 5 * test::small_segment_bytes / 2;
  REQUIRE(journal.log(0).admit(bytes) == Admission::later);
  journal.work();
  REQUIRE(journal.log(0).admit(bytes) == Admission::granted);
  REQUIRE(journal.log(1).admit(bytes) == Admission::later);
  journal.work();
  REQUIRE(journal.log(1).admit(bytes) == Admission::later);
  REQUIRE(journal.status().waits_for_save);
  journal.work();
  journal.log(0).begin_group();
  journal.log(0).end_group();
  const int before = progress_count;
  journal.work();
  CHECK(progress_count > before);
  CHECK(journal.log(1).admit(bytes) == Admission::granted);
}

}  // namespace journal_groups_test
