// A journal on a full disk, or at its bound: which requests still get room.
#include <sepal/storage/journal/journal.hpp>
#include <sepal/storage/journal/reserve.hpp>

#include "support/catch.hpp"
#include "support/journal_fixture.hpp"

namespace journal_way_out_test {

using namespace sepal;
using namespace sepal::storage;

namespace {

using keyspace::Admission;
using keyspace::Change;
using test::JournalFixture;

constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 10;
constexpr std::uint64_t reserve_bytes = Reserve::piece_count * piece_bytes;

struct WayOutFixture : JournalFixture {
  std::unique_ptr<Reserve> reserve;
  std::uint64_t bytes_max = 0;
  std::uint64_t bytes_beside = 0;
  std::size_t worker_count = 1;
  int room_asked = 0;

  void open_journal(std::uint64_t position = 0, const JournalOptions& options = test::small_journal) {
    auto kept = Reserve::open(disk, directory, reserve_bytes);
    REQUIRE(kept);
    reserve = std::move(*kept);
    auto opened = Journal::open(disk, directory, position, worker_count, options,
                                {.on_progress = [this] { ++progress_count; },
                                 .on_save_needed = [this] { ++asked_count; },
                                 .on_room_needed = [this] { ++room_asked; },
                                 .bytes_max = [this] { return bytes_max; },
                                 .bytes_beside = [this] { return bytes_beside; }},
                                reserve.get());
    REQUIRE(opened);
    journal = std::move(*opened);
    journal->work();
  }

  [[nodiscard]] std::uint64_t used() const {
    std::uint64_t bytes = 0;
    for (const auto& [path, contents] : disk.files()) bytes += contents.size();
    return bytes;
  }
  // Makes all files of the journal, then leaves so many bytes free. Returns the disk's capacity.
  std::uint64_t leave_room(std::uint64_t byte_count) {
    REQUIRE(add(1));
    journal->work();
    journal->work();
    const std::uint64_t capacity = used() + byte_count;
    disk.set_capacity(capacity);
    return capacity;
  }

  // Removes a key as a worker does. The journal has no thread here.
  bool remove_key() {
    for (int tries = 0; tries < 3; ++tries) {
      const Admission admission = log().admit(test::add_bytes(1), Change::frees);
      if (admission == Admission::refused) return false;
      if (admission == Admission::granted) {
        log().record(keyspace::Removed{key});
        log().commit();
        return true;
      }
      journal->work();
    }
    return false;
  }
  std::uint64_t fill_all() {
    std::uint64_t adds = 0;
    for (int rounds = 0; rounds < 100; ++rounds) {
      adds += fill(10);
      journal->work();
      if (log().admit(test::add_bytes(10)) == Admission::refused) return adds;
    }
    FAIL("the disk is never full");
    return adds;
  }
  // A sync fails. Then a save ends that has all that was recorded.
  void fail_a_sync() {
    REQUIRE(add(1));
    disk.fail_at(disk.operation_count() + 1, Errc::io);
    journal->work();
    REQUIRE_FALSE(journal->status().accepting);
    journal->generation_saved(journal->position());
  }
  // An empty directory comes into the place of the directory, whose files stay on the disk.
  void replace_directory() {
    REQUIRE(add(1));
    REQUIRE(disk.rename("d", "away"));
    REQUIRE(disk.make_directory("d"));
    journal->work();
    REQUIRE_FALSE(journal->status().accepting);
    journal->generation_saved(journal->position());
  }
  [[nodiscard]] std::string way_out(std::uint64_t byte_count) const {
    return "No space left on device; free " + std::to_string(byte_count) + " bytes on the disk of d";
  }
  [[nodiscard]] std::uint64_t removals() const {
    const auto all = operations();
    return static_cast<std::uint64_t>(std::ranges::count_if(all, [](const test::JournalOperation& each) {
      return each.operation == format::Operation::removed;
    }));
  }
};

TEST_CASE_METHOD(WayOutFixture, "the reserve is made before the journal grows") {
  open_journal();
  CHECK(reserve->whole());
  CHECK(journal->status().accepting);
}

TEST_CASE_METHOD(WayOutFixture, "on a full disk, removals are accepted and durable") {
  open_journal();
  leave_room(2 * test::small_segment_bytes);
  fill_all();
  CHECK(reserve->whole());
  for (int i = 0; i < 20; ++i) REQUIRE(remove_key());
  CHECK(log().admit(test::add_bytes(1)) == Admission::refused);
  CHECK(reserve->byte_count() == reserve_bytes - piece_bytes);
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  CHECK(removals() == 20);
}

TEST_CASE_METHOD(WayOutFixture, "removals leave half of the reserve to a save") {
  open_journal();
  leave_room(test::small_segment_bytes);
  fill_all();
  std::uint64_t removed = 0;
  while (remove_key()) ++removed;
  CHECK(removed > 100);
  CHECK(reserve->byte_count() == reserve_bytes / 2);
  CHECK_FALSE(journal->status().refusal.empty());
  // After a save the journal removes its old segments.
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(remove_key());
  CHECK(reserve->whole());
  CHECK(add(1));
}

TEST_CASE_METHOD(WayOutFixture, "keys can be removed after a save that has grown into the reserve") {
  open_journal();
  leave_room(test::small_segment_bytes);
  fill_all();
  REQUIRE(reserve->lend({.byte_count = 2 * piece_bytes, .for_good = true}));
  // The save has taken the room of both pieces.
  disk.set_capacity(used());
  reserve->returned();
  journal->work();
  CHECK_FALSE(reserve->whole());
  for (int i = 0; i < 20; ++i) REQUIRE(remove_key());
  CHECK(reserve->byte_count() == piece_bytes);
  journal->work();
  CHECK(removals() == 20);
  CHECK(log().admit(test::add_bytes(1)) == Admission::refused);
}

TEST_CASE_METHOD(WayOutFixture, "where keys cannot be removed either, the refusal says what to free") {
  open_journal();
  leave_room(test::small_segment_bytes);
  fill_all();
  while (remove_key()) {
  }
  CHECK(journal->status().refusal.find(
            "No space left on device; free " +
            std::to_string(reserve_bytes - reserve->byte_count() + test::small_segment_bytes) +
            " bytes on the disk of d") != std::string::npos);
}

TEST_CASE_METHOD(WayOutFixture, "new room goes to the reserve first") {
  open_journal();
  const std::uint64_t full_at = leave_room(test::small_segment_bytes);
  fill_all();
  for (int i = 0; i < 20; ++i) REQUIRE(remove_key());
  CHECK_FALSE(reserve->whole());
  disk.set_capacity(full_at + piece_bytes);
  journal->work();
  CHECK(reserve->whole());
  // Now all changes may use the segments that were made for removals.
  CHECK(journal->status().accepting);
  CHECK(add(1));
}

TEST_CASE_METHOD(WayOutFixture, "on a full disk, a journal begins in the room behind its old end") {
  open_journal();
  REQUIRE(add(7));
  const std::uint64_t position = journal->position();
  // The process dies, and the prepared segments are lost, as may happen on a real disk.
  auto found = disk.crashed_copy(test::Survival::all, 1);
  for (const std::string name : {"journal-000000000002", "journal-000000000003"})
    REQUIRE(found->remove(Path("d") / name));
  found->set_capacity(test::small_segment_bytes + reserve_bytes);
  journal.reset();
  auto kept = Reserve::open(*found, "d", reserve_bytes);
  REQUIRE(kept);
  auto opened = Journal::open(*found, "d", position, 1, test::small_journal, {}, kept->get());
  REQUIRE(opened);
  CHECK((*kept)->whole());
  CHECK((*opened)->log(0).admit(100, Change::frees) == Admission::granted);
  (*opened)->log(0).record(keyspace::Removed{key});
  (*opened)->log(0).commit();
  CHECK(test::operations_of(test::journal_files(found->files(), "d")).size() == 2);
  REQUIRE((*opened)->stop());
}

TEST_CASE_METHOD(WayOutFixture, "a journal without any room refuses everything until there is some") {
  disk.set_capacity(0);
  open_journal();
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find("No space left") != std::string::npos);
  CHECK(log().admit(1) == Admission::refused);
  CHECK_FALSE(remove_key());
  disk.set_capacity(10 * test::small_segment_bytes);
  journal->work();
  CHECK(journal->status().accepting);
  CHECK(add(1));
  CHECK(remove_key());
}

TEST_CASE_METHOD(WayOutFixture, "a journal at its bound waits for a save, and accepts removals") {
  bytes_max = 4 * test::small_segment_bytes;
  open_journal();
  for (int rounds = 0; rounds < 20; ++rounds) {
    fill(10);
    journal->work();
  }
  CHECK(room_asked > 0);
  CHECK(journal->status().byte_count <= bytes_max);
  CHECK(journal->status().waits_for_save);
  CHECK(journal->status().accepting);
  CHECK(log().admit(test::add_bytes(10)) == Admission::later);
  CHECK(remove_key());

  journal->generation_saved(journal->position());
  journal->work();
  journal->work();
  CHECK_FALSE(journal->status().waits_for_save);
  CHECK(add(1));
}

TEST_CASE_METHOD(WayOutFixture, "workers that ask for much, one after the other, all get it") {
  bytes_max = 8 * test::small_segment_bytes;
  worker_count = 8;
  open_journal();
  for (std::size_t worker = 0; worker < worker_count; ++worker) {
    Admission admission = Admission::later;
    for (int tries = 0; admission == Admission::later && tries < 10; ++tries) {
      admission = log(worker).admit(4 * test::small_segment_bytes);
      journal->work();
    }
    REQUIRE(admission == Admission::granted);
    log(worker).record(keyspace::Removed{key});
    log(worker).commit();
  }
}

TEST_CASE_METHOD(WayOutFixture, "a save ends with no more segments than the journal always keeps") {
  open_journal();
  const auto bytes = [this] {
    std::uint64_t sum = 0;
    for (const auto& [path, contents] : disk.files())
      if (path.find("/journal-") != std::string::npos) sum += contents.size();
    return sum;
  };
  REQUIRE(add(1));
  journal->work();
  const std::uint64_t usual = bytes();
  REQUIRE(log().admit(6 * test::small_segment_bytes) == Admission::later);
  journal->work();
  REQUIRE(log().admit(6 * test::small_segment_bytes) == Admission::granted);
  const std::uint64_t grown = bytes();
  REQUIRE(grown > usual + 3 * test::small_segment_bytes);
  // The worker still needs the room.
  journal->generation_saved(0);
  journal->work();
  CHECK(bytes() == grown);
  log().commit();
  journal->work();
  CHECK(bytes() == grown);
  // Nothing was recorded since, so no position tells this save from the last one.
  journal->generation_saved(0);
  journal->work();
  CHECK(bytes() == usual);
  // What is left is enough to go on, also into segments that are made later.
  std::uint64_t adds = 1;
  while (bytes() <= grown) {
    if (add(adds + 1)) ++adds;
    journal->work();
  }
  log().commit();
  CHECK(added().size() == adds);
}

TEST_CASE_METHOD(WayOutFixture, "a change that the journal can never hold is not put off") {
  bytes_max = 8 * test::small_segment_bytes;
  open_journal();
  // One segment is in use, and other workers may keep the room of another one.
  const std::uint64_t most = 6 * (test::small_segment_room - test::small_segment_bytes / 8);
  CHECK(log().admit(most + 1) == Admission::never);
  // It is no other client's fault, so changes go on.
  CHECK(journal->status().accepting);
  CHECK(add(1));
  CHECK(log().admit(most) == Admission::later);
  journal->work();
  CHECK(log().admit(most) == Admission::granted);
  CHECK(room_asked == 0);
}

TEST_CASE_METHOD(WayOutFixture, "a journal at its bound asks for a save that removes files beside it") {
  bytes_max = 8 * test::small_segment_bytes;
  bytes_beside = 4 * test::small_segment_bytes;
  open_journal();
  const std::uint64_t bytes = 5 * test::small_segment_bytes;
  CHECK(log().admit(bytes) == Admission::later);
  journal->work();
  CHECK(journal->status().byte_count == 4 * test::small_segment_bytes);
  CHECK(room_asked > 0);
  bytes_beside = 0;
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(log().admit(bytes) == Admission::granted);
}

TEST_CASE_METHOD(WayOutFixture, "a journal at its bound refuses changes once the save has failed") {
  bytes_max = 4 * test::small_segment_bytes;
  open_journal();
  for (int rounds = 0; rounds < 20; ++rounds) {
    fill(10);
    journal->work();
  }
  journal->save_failed("cannot write d/pack-0: Input/output error", 0);
  journal->work();
  CHECK(log().admit(test::add_bytes(10)) == Admission::refused);
  CHECK(journal->status().refusal.find("journal_size_max") != std::string::npos);
  CHECK(journal->status().refusal.find("Input/output error") != std::string::npos);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(add(1));
}

TEST_CASE_METHOD(WayOutFixture, "while a save does not fit, the journal leaves the free room to it") {
  open_journal();
  constexpr std::uint64_t lacking = 100'000;
  const std::uint64_t capacity = leave_room(lacking);
  journal->save_failed("cannot write d/pack-0: No space left on device", lacking);
  fill_all();
  CHECK(journal->status().byte_count == 3 * test::small_segment_bytes);
  CHECK(*disk.free_bytes("d") == lacking);
  CHECK(journal->status().refusal.find("save did not fit") != std::string::npos);
  SECTION("until it has succeeded") {
    journal->generation_saved(journal->position());
    journal->work();
    CHECK(add(1));
  }
  SECTION("until there is room for both") {
    disk.set_capacity(capacity + test::small_segment_bytes);
    journal->work();
    CHECK(add(1));
  }
}

TEST_CASE_METHOD(WayOutFixture, "after a failed sync, the room of the old segments is enough to go on") {
  open_journal();
  leave_room(0);
  fail_a_sync();
  journal->work();
  CHECK(journal->status().accepting);
  CHECK(reserve->whole());
  REQUIRE(add(2));
  journal->work();
  CHECK(journal->durable_position() == journal->position());
  CHECK(added() == test::numbers_from(2, 1));
}

TEST_CASE_METHOD(WayOutFixture, "after a failed sync on a full disk, a worker keeps the room that it has") {
  worker_count = 2;
  open_journal();
  leave_room(0);
  constexpr std::uint64_t kept = test::small_segment_bytes + test::small_segment_bytes / 4;
  REQUIRE(log(1).admit(kept) == Admission::granted);
  fail_a_sync();
  journal->work();
  // One old segment was let go. The rest of the room is that of a piece of the reserve.
  CHECK(reserve->byte_count() < reserve_bytes);
  CHECK(log().admit(test::add_bytes(1)) != Admission::granted);
  std::uint64_t adds = 0;
  for (std::uint64_t recorded = 0; recorded + test::add_bytes(10) <= kept; recorded += test::add_bytes(10)) {
    log(1).begin_add();
    log(1).added(key, test::fingerprints_from(10 * adds, 10));
    ++adds;
  }
  CHECK(added() == test::numbers_from(0, 10 * adds));
  log(1).commit();
  CHECK(remove_key());
  // With its other segments the journal has let go of what the worker needed, so there is room again.
  for (int rounds = 0; rounds < 3; ++rounds) journal->work();
  CHECK(reserve->whole());
  CHECK(journal->status().accepting);
}

TEST_CASE_METHOD(WayOutFixture, "what was admitted before a failed sync is recorded after room was made") {
  worker_count = 2;
  open_journal();
  leave_room(0);
  REQUIRE(log(1).admit(2 * test::small_segment_bytes) == Admission::granted);
  fail_a_sync();
  // Not even the reserve has that much.
  disk.set_capacity(0);
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  log(1).begin_add();
  log(1).added(key, test::fingerprints_from(5, 1));
  CHECK(added().back() == 5);
  // The generation lacks this add.
  disk.set_capacity(test::SimulatedDisk::never);
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  CHECK(added().back() == 5);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().accepting);
}

TEST_CASE_METHOD(WayOutFixture, "a directory that is replaced on a full disk says what to free") {
  open_journal();
  leave_room(0);
  replace_directory();
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find(way_out(reserve_bytes + test::small_segment_bytes)) !=
        std::string::npos);
  CHECK_FALSE(remove_key());
  SECTION("and accepts everything where that was freed") {
    disk.set_capacity(used() + reserve_bytes + test::small_segment_bytes);
    journal->work();
    journal->work();
    CHECK(journal->status().accepting);
    CHECK(reserve->whole());
    CHECK(add(1));
  }
  SECTION("and takes removals where a part of that was freed") {
    disk.set_capacity(used() + piece_bytes);
    journal->work();
    CHECK(journal->status().refusal.find(way_out(reserve_bytes + test::small_segment_bytes)) !=
          std::string::npos);
    CHECK(remove_key());
    journal->work();
    CHECK(journal->status().refusal.find("no room for the reserve") != std::string::npos);
    CHECK(remove_key());
    CHECK(removals() == 2);
    CHECK(log().admit(test::add_bytes(1)) == Admission::refused);
  }
}

TEST_CASE_METHOD(WayOutFixture,
                 "a directory that is replaced on a full disk gets segments as short as at first") {
  constexpr std::uint64_t first_bytes = test::small_segment_bytes / 2;
  JournalOptions options = test::small_journal;
  options.first_segment_bytes = first_bytes;
  open_journal(0, options);
  // By now new segments are longer.
  for (int rounds = 0; rounds < 5; ++rounds) {
    fill(10);
    journal->work();
  }
  REQUIRE(reserve->whole());
  replace_directory();
  disk.set_capacity(used() + first_bytes);
  journal->work();
  CHECK(journal->status().accepting);
  CHECK(journal->status().byte_count == first_bytes);
  disk.set_capacity(used() + reserve_bytes);
  journal->work();
  CHECK(reserve->whole());
  CHECK(add(1));
}

TEST_CASE_METHOD(WayOutFixture, "after a failed sync, the refusal says why the save failed") {
  open_journal();
  REQUIRE(add(1));
  REQUIRE(disk.rename("d", "away"));
  journal->work();
  REQUIRE(journal->status().refusal.find("was removed while in use") != std::string::npos);
  REQUIRE(disk.rename("away", "d"));
  journal->save_failed("cannot write d/pack-0: No space left on device", 100'000);
  journal->work();
  CHECK_FALSE(journal->status().accepting);
  CHECK(journal->status().refusal.find("was removed") == std::string::npos);
  CHECK(journal->status().refusal.find("cannot write d/pack-0: No space left on device") !=
        std::string::npos);
  journal->generation_saved(journal->position());
  journal->work();
  CHECK(journal->status().refusal.empty());
}

TEST_CASE_METHOD(WayOutFixture, "what a save has borrowed is made again when the save has ended") {
  open_journal();
  REQUIRE(add(1));
  journal->work();
  journal->work();
  REQUIRE(reserve->lend({.byte_count = reserve_bytes}));
  journal->work();
  CHECK(reserve->byte_count() == 0);
  constexpr std::uint64_t lacking = 100'000;
  SECTION("that succeeded") {
    reserve->returned();
    journal->generation_saved(journal->position());
  }
  SECTION("and without a change since, once there is room") {
    const std::uint64_t bytes = used();
    disk.set_capacity(bytes + piece_bytes);
    reserve->returned();
    journal->generation_saved(journal->position());
    journal->work();
    journal->work();
    CHECK(reserve->byte_count() == piece_bytes);
    disk.set_capacity(bytes + reserve_bytes);
  }
  SECTION("that failed, but only beside the room that it lacked") {
    const std::uint64_t bytes = used();
    disk.set_capacity(bytes + lacking + reserve_bytes - 1);
    reserve->returned();
    journal->save_failed("cannot write d/pack-0: No space left on device", lacking);
    journal->work();
    journal->work();
    CHECK(reserve->byte_count() == 0);
    CHECK(add(2));
    disk.set_capacity(bytes + lacking + reserve_bytes);
  }
  journal->work();
  journal->work();
  CHECK(reserve->whole());
  CHECK(journal->status().accepting);
  CHECK(room_asked == 0);
}

}  // namespace
}  // namespace journal_way_out_test
