// Journals that end in the middle, damaged ones, ones with wrong contents, and good ones.
#include <sepal/base/gate.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/replayed.hpp"
#include "support/values.hpp"

namespace replay_test {

using namespace sepal;
using namespace sepal::storage;
using namespace sepal::test;

TEST_CASE("a journal that is cut at any byte is replayed up to the last whole frame") {
  Sample sample(3);
  const std::size_t used = sample.journal.used();
  for (std::size_t length = Sample::offset_of(sample.positions[0]); length < used; ++length) {
    INFO("length " << length);
    Sample torn = sample;
    std::fill(torn.newest().begin() + static_cast<std::ptrdiff_t>(length), torn.newest().end(), std::byte{0});
    std::size_t whole = 0;
    // The padding of a frame is zeros as well.
    while (whole < 2 && torn.newest() != sample.newest() &&
           Sample::offset_of(sample.positions[whole + 1]) <= length)
      ++whole;
    const auto replayed = replay(torn.journal);
    REQUIRE_FALSE(replayed->error);
    if (torn.newest() == sample.newest()) continue;
    CHECK(replayed->items() >= whole);
    if (replayed->items() > whole) continue;  // only padding is missing
    CHECK(replayed->report.position == sample.positions[whole]);
    // The cut bytes are counted in whole words.
    CHECK(replayed->report.cut_bytes < length - Sample::offset_of(sample.positions[whole]) + 8);
    CHECK(replayed->report.cut_path == "data/" + torn.journal.newest_name());
    CHECK(replayed->report.cut_offset == Sample::offset_of(sample.positions[whole]));
  }
}

TEST_CASE("a wrong byte in a frame ends the journal there, and nothing of the frame is applied") {
  Sample sample(3);
  const std::size_t begin = Sample::offset_of(sample.positions[1]);
  // The end without the zeros after the operations.
  const std::size_t end = Sample::offset_of(sample.positions[2]) - 5;
  for (std::size_t at = begin; at < end; ++at) {
    INFO("offset " << at);
    Sample damaged = sample;
    damaged.newest()[at] ^= std::byte{0x40};
    const auto replayed = replay(damaged.journal);
    REQUIRE_FALSE(replayed->error);
    CHECK(replayed->items() == 1);
    CHECK(replayed->report.position == sample.positions[1]);
    CHECK(replayed->report.cut_bytes > 0);
  }
}

TEST_CASE("a bad frame before the synced position of a later frame is damaged, not torn") {
  Sample sample(3);
  sample.journal.sync();
  add(sample.journal, 3);
  const std::size_t begin = Sample::offset_of(sample.positions[1]);
  for (const std::size_t at : {begin, begin + 8, begin + 30}) {
    Sample damaged = sample;
    damaged.newest()[at] ^= std::byte{0x40};
    const auto replayed = replay(damaged.journal);
    REQUIRE(replayed->error);
    CHECK(replayed->error->code == Errc::damaged);
    CHECK(mentions(*replayed->error,
                   "data/journal-000000000001 is damaged at offset " + std::to_string(begin) + ":"));
    CHECK(mentions(*replayed->error, "sepal salvage"));
  }
  // No later frame says that the last frame was synced, so it is torn and not damaged.
  sample.newest()[sample.journal.used() - 10] ^= std::byte{1};
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 3);
}

TEST_CASE("replay stops where the journal was off, and reports what it leaves out") {
  Sample sample(2);
  const std::uint64_t off = sample.journal.position();
  sample.journal.resumed();
  sample.journal.end_frame();
  const std::uint64_t on = sample.journal.position();
  add(sample.journal, 5);
  sample.journal.begin_segment();
  sample.journal.sync();
  add(sample.journal, 6);
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->report.resumed);
  CHECK(replayed->report.position == off);
  CHECK(replayed->report.cut_bytes > 0);
  CHECK(replayed->report.beyond.size() == 1);
  CHECK(replayed->items() == 2);

  // A generation that was cut after the gap holds the changes that the journal lacks.
  test::Filters filters;
  Gate gate(1);
  REQUIRE(sepal::writers::create(filters.keyspace, some_key, some_options));
  const auto report =
      replay_journal(replayed->disk, "data", filters.keyspace, gate, {.cut = on, .positions = {}}, {});
  REQUIRE(report);
  CHECK_FALSE(report->resumed);
  CHECK(sepal::test::filter_at(filters.keyspace, some_key)->item_count() == 2);
}

TEST_CASE("frames of the greatest length are read, also at the end of a buffer") {
  const std::size_t count =
      (format::frame_body_bytes_max - sizeof(format::OperationHead) - some_key.key.size()) /
      sizeof(Fingerprint);
  const bloom::FilterOptions options{.error_rate = 0.01, .capacity = 40 * count, .seed = 7};
  JournalFiles journal(0, std::uint64_t{16} << 20);
  journal.created(some_key, options, first_layer(options));
  journal.end_frame();
  std::vector<Fingerprint> fingerprints(count);
  for (std::uint64_t frame = 0; frame < 20; ++frame) {
    for (std::size_t i = 0; i < count; ++i)
      fingerprints[i] = fingerprint_of(std::to_string(frame * count + i), options.seed);
    journal.added(some_key, fingerprints);
    journal.end_frame();
  }
  const auto replayed = replay(journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 20 * count);
  CHECK(test::contains(*sepal::test::filter_at(replayed->filters.keyspace, some_key), "5"));
}

TEST_CASE("a cancelled replay ends with that error") {
  Sample sample(3);
  SimulatedDisk disk;
  sample.journal.put(disk, "data");
  test::Filters filters;
  Gate gate(1);
  const auto report = replay_journal(disk, "data", filters.keyspace, gate, {}, [](const Progress& progress) {
    CHECK(progress.bytes_done > 0);
    CHECK(progress.bytes_done <= progress.bytes_total);
    return false;
  });
  REQUIRE(!report);
  CHECK(report.error().code == Errc::io);
}

TEST_CASE("a lowered memory limit does not stop the replay of accepted changes") {
  Sample sample(3);
  SimulatedDisk disk;
  sample.journal.put(disk, "data");
  test::FreeingHousekeeper housekeeper;
  keyspace::Keyspace keyspace({.memory_max = 1, .machine_bytes = 1 << 20, .keys_max = 0}, housekeeper);
  Gate gate(1);
  CHECK(replay_journal(disk, "data", keyspace, gate, {}, {}));
  CHECK(sepal::test::filter_at(keyspace, some_key)->item_count() == 3);

  // A filter larger than the machine's memory is refused before it is allocated.
  keyspace::Keyspace tiny({.machine_bytes = 100}, housekeeper);
  const auto refused = replay_journal(disk, "data", tiny, gate, {}, {});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::too_large);
  CHECK(mentions(refused.error(), "data/journal-000000000001 has a change at offset 64"));
}

}  // namespace replay_test
