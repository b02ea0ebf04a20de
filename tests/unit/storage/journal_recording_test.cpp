// Which changes the journal records, in which order, in which frames.

#include "storage/format/operation_encoder.hpp"
#include "support/journal_fixture.hpp"

namespace journal_recording_test {

using namespace sepal;
using namespace sepal::storage;
using keyspace::Admission;
using namespace test;

namespace {

constexpr bloom::FilterOptions some_options{.error_rate = 0.25, .capacity = 100, .expansion = 2, .seed = 1};
constexpr bloom::LayerPlan some_layer{
    .capacity = 100, .error_rate = 0.5, .block_count = 2, .block_bits = 512, .probe_count = 6};

const auto some_head = bloom::made_record({.options = some_options, .first_layer = some_layer});
const auto some_growth = bloom::grown_record(some_layer);

keyspace::Made some_creation(keyspace::DatabaseKey key) {
  return {.key = key, .kind = value::Kind::bloom, .head = some_head};
}

std::vector<format::Operation> kinds_of(const std::vector<JournalOperation>& operations) {
  std::vector<format::Operation> kinds;
  for (const JournalOperation& operation : operations) kinds.push_back(operation.operation);
  return kinds;
}

}  // namespace

TEST_CASE_METHOD(JournalFixture, "an add is in the segment as soon as the log gets it") {
  open();
  CHECK(journal->position() == 0);
  REQUIRE(add(1));
  CHECK(journal->position() == test::add_bytes(1));
  REQUIRE(add(2, 3));
  CHECK(journal->position() == test::add_bytes(1) + test::add_bytes(3));

  REQUIRE(segments().size() == 1);
  const test::JournalFile segment = segments()[0];
  CHECK(segment.number == 1);
  CHECK(segment.first_position == 0);
  CHECK(segment.end_position == journal->position());
  REQUIRE(segment.frames.size() == 2);
  CHECK(segment.frames[1].position == test::add_bytes(1));
  CHECK(operations()[1] == JournalOperation{.operation = format::Operation::added,
                                            .database = 3,
                                            .key = "key",
                                            .target = {},
                                            .fingerprints = test::fingerprints_from(2, 3)});
  CHECK(journal->status().frames == 2);
}

TEST_CASE_METHOD(JournalFixture, "an add without new items records nothing") {
  open();
  log().begin_add();
  log().added(key, {});
  CHECK(journal->position() == 0);
  CHECK(log().seal_record(true) == 0);
}

TEST_CASE_METHOD(JournalFixture, "a segment begins at its given position") {
  open(test::small_journal, 1000);
  CHECK(journal->position() == 1000);
  CHECK(journal->durable_position() == 1000);
  REQUIRE(add(1));
  CHECK(segments().at(0).first_position == 1000);
  CHECK(journal->position() == 1000 + test::add_bytes(1));
}

TEST_CASE_METHOD(JournalFixture, "changes with the gate closed become one frame, at the commit") {
  open();
  REQUIRE(log().admit(10'000) == Admission::granted);
  log().record(some_creation(key));
  log().begin_add();
  log().added(key, test::fingerprints_from(0, 2));
  log().record(keyspace::Changed{.key = key, .kind = value::Kind::bloom, .head = some_growth});
  log().begin_add();
  log().added(key, test::fingerprints_from(2, 1));
  log().begin_add();
  log().added(key, test::fingerprints_from(3, 1));
  log().record(keyspace::Renamed{.key = key, .target = "other"});
  log().record(keyspace::Removed{{.database = 3, .key = "other"}});
  log().record(keyspace::Flushed{4});
  log().record(keyspace::FlushedAll{});
  CHECK(journal->position() == 0);
  log().commit();
  const std::uint64_t committed = journal->position();
  log().commit();
  CHECK(journal->position() == committed);

  REQUIRE(segments().at(0).frames.size() == 1);
  using enum format::Operation;
  CHECK(kinds_of(operations()) == std::vector{made, changed, added, renamed, removed, flushed, flushed_all});
  CHECK(operations()[0].fingerprints == test::fingerprints_from(0, 2));
  CHECK(operations()[1].key == "key");
  CHECK(operations()[2].fingerprints == test::fingerprints_from(2, 2));
  CHECK(operations()[3].target == "other");
  CHECK(operations()[5].database == 4);
}

TEST_CASE_METHOD(JournalFixture, "an add after a commit is a frame of its own again") {
  open();
  REQUIRE(log().admit(1000) == Admission::granted);
  log().record(some_creation(key));
  log().commit();
  REQUIRE(add(1));
  REQUIRE(add(2));
  CHECK(segments().at(0).frames.size() == 3);
}

TEST_CASE_METHOD(JournalFixture, "many operations with the gate closed are several frames, in order") {
  JournalOptions options = test::small_journal;
  options.segment_bytes = journal_segment_bytes_min;
  open(options);
  constexpr std::uint32_t count = 20'000;
  REQUIRE(log().admit(count * 40) == Admission::granted);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    log().record(keyspace::Removed{{.database = 0, .key = name}});
  }
  log().commit();
  const std::vector<JournalOperation> all = operations();
  REQUIRE(all.size() == count);
  for (std::uint32_t i = 0; i < count; ++i) REQUIRE(all[i].key == std::to_string(i));
  const std::size_t frames = segments().at(0).frames.size();
  CHECK(frames > 5);
  CHECK(frames < 20);
}

TEST_CASE_METHOD(JournalFixture, "a filter and its first items may be in two frames") {
  JournalOptions options = test::small_journal;
  options.segment_bytes = journal_segment_bytes_min;
  open(options);
  REQUIRE(log().admit(100'000) == Admission::granted);
  // The filling leaves room in the 64 KiB of a frame for the creation, but not for an item after it.
  const std::uint64_t room =
      format::frame_bytes(operation_bytes_max(some_creation(key))) + sizeof(Fingerprint);
  const std::string filling((std::size_t{64} << 10) - room - sizeof(format::OperationHead), 'x');
  log().record(keyspace::Removed{{.database = 0, .key = filling}});
  log().record(some_creation(key));
  log().begin_add();
  log().added(key, test::fingerprints_from(0, 2));
  log().commit();
  CHECK(segments().at(0).frames.size() == 2);
  using enum format::Operation;
  REQUIRE(kinds_of(operations()) == std::vector{removed, made, added});
  CHECK(operations()[1].fingerprints.empty());
  CHECK(operations()[2].key == "key");
  CHECK(operations()[2].fingerprints == test::fingerprints_from(0, 2));
}

TEST_CASE_METHOD(JournalFixture, "the longest keys fit into the smallest segments") {
  JournalOptions options = test::small_journal;
  options.segment_bytes = journal_segment_bytes_min;
  open(options);
  const std::string from(keyspace::key_bytes_max, 'f');
  const std::string to(keyspace::key_bytes_max, 't');
  REQUIRE(log().admit(2 * from.size() + keyspace::record_bytes_max) == Admission::granted);
  log().record(keyspace::Renamed{.key = {.database = 0, .key = from}, .target = to});
  log().commit();
  REQUIRE(operations().size() == 1);
  CHECK(operations()[0].key == from);
  CHECK(operations()[0].target == to);
}

TEST_CASE_METHOD(JournalFixture, "an add too large for one frame becomes several frames") {
  open();
  REQUIRE(log().admit(8192) == Admission::granted);
  log().begin_add();
  log().added(key, test::fingerprints_from(0, 300));
  CHECK(added() == test::numbers_from(0, 300));
  CHECK(segments().at(0).frames.size() > 1);
}

TEST_CASE_METHOD(JournalFixture, "nothing is recorded under off") {
  open(test::with_policy(JournalPolicy::off));
  CHECK_FALSE(log().recording());
  CHECK(names().empty());
  CHECK(journal->status().accepting);
  CHECK(log().seal_record(false) == 0);
}

TEST_CASE_METHOD(JournalFixture, "only under always replies wait for a position") {
  open(test::with_policy(JournalPolicy::always));
  REQUIRE(add(1));
  CHECK(log().seal_record(false) == journal->position());
  journal->set_policy(JournalPolicy::everysec);
  CHECK(log().seal_record(false) == 0);
}

TEST_CASE_METHOD(JournalFixture,
                 "a worker that saw another worker's add seals its record only when the add is recorded") {
  open(test::with_policy(JournalPolicy::always), 0, 2);
  REQUIRE(log(0).admit(1000) == Admission::granted);
  log(0).begin_add();
  CHECK(log(1).seal_record(false) == 0);  // worker 1 answered no item as known

  std::atomic<std::uint64_t> sealed{0};
  std::thread other([&] { sealed = log(1).seal_record(true); });
  std::this_thread::yield();
  CHECK(sealed == 0);
  log(0).added(key, test::fingerprints_from(1, 1));
  other.join();
  CHECK(sealed == journal->position());
  CHECK(sealed == test::add_bytes(1));
}

TEST_CASE_METHOD(JournalFixture, "a worker that adds does not wait for itself") {
  open();
  log().begin_add();
  CHECK(log().seal_record(true) == 0);
}

}  // namespace journal_recording_test
