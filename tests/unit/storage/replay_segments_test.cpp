// The segments of a journal: in order, missing, damaged, or left from an earlier time.
#include <sepal/base/gate.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/replayed.hpp"

namespace replay_segments_test {

using namespace sepal;
using namespace sepal::storage;
using namespace sepal::test;

TEST_CASE("a later segment proves damage, even one that lost its header") {
  for (const bool header_lost : {false, true}) {
    Sample sample(3);
    sample.journal.sync();
    sample.journal.begin_segment();
    add(sample.journal, 3);
    sample.journal.sync();
    add(sample.journal, 4);
    if (header_lost) std::fill_n(sample.newest().begin(), sizeof(format::SegmentHeader), std::byte{0});
    CHECK(replay(sample.journal)->error.has_value() == header_lost);
    sample.journal.files().begin()->second[Sample::offset_of(sample.positions[2]) + 3] ^= std::byte{1};
    const auto replayed = replay(sample.journal);
    if (header_lost) {
      // Without its header, the positions of its frames are unknown.
      REQUIRE_FALSE(replayed->error);
      continue;
    }
    REQUIRE(replayed->error);
    CHECK(mentions(*replayed->error, "data/journal-000000000001 is damaged at offset " +
                                         std::to_string(Sample::offset_of(sample.positions[2]))));
  }
}

TEST_CASE("a segment whose header never got to the disk is cut off, with all later ones") {
  Sample sample(2);
  sample.journal.begin_segment();
  add(sample.journal, 2);
  std::fill_n(sample.newest().begin(), 4096, std::byte{0});
  sample.journal.begin_segment();
  add(sample.journal, 3);
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 2);
  CHECK(replayed->report.beyond.size() == 2);
  CHECK(replayed->report.cut_bytes > 0);
  REQUIRE(remove_beyond(replayed->disk, "data", replayed->report));
  CHECK(*replayed->disk.list("data") == std::vector<std::string>{"journal-000000000001"});
  replayed->disk.crash(test::Survival::synced, 1);
  CHECK(*replayed->disk.list("data") == std::vector<std::string>{"journal-000000000001"});
}

TEST_CASE("prepared segments are no part of the journal, and are removed before it continues") {
  Sample sample(2);
  sample.journal.prepare_segment();
  sample.journal.begin_segment();
  add(sample.journal, 2);
  sample.journal.prepare_segment();
  sample.journal.prepare_segment();
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 3);
  CHECK(replayed->report.position == sample.journal.position());
  CHECK(replayed->report.cut_bytes == 0);
  CHECK(replayed->report.beyond ==
        std::vector<Path>{"data/journal-000000000004", "data/journal-000000000005"});
}

TEST_CASE("unwritten parts of a journal are not read") {
  Sample sample(2);
  sample.journal.prepare_segment();
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  // One read for the header and one for the frames. In the other segment only the header is read.
  CHECK(replayed->reads.at("journal-000000000001") == 2);
  CHECK(replayed->reads.at("journal-000000000002") == 1);
}

TEST_CASE("a segment that begins at an earlier end replaces the part that was cut off there") {
  Sample sample(3);
  // As if an earlier start had found the third frame torn, and the rest of the file were still there.
  JournalFiles next(sample.positions[2]);
  add(next, 10);
  add(next, 11);
  add(next, 12);
  Bytes file = next.files().begin()->second;
  format::SegmentHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  header.segment_number = 2;
  header.checksum = format::segment_checksum(header);
  std::memcpy(file.data(), &header, sizeof header);
  sample.journal.files()["journal-000000000002"] = file;
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 5);
  CHECK(replayed->report.position == next.position());
}

TEST_CASE("a segment that begins inside a frame of the one before is damaged") {
  Sample sample(2);
  sample.journal.begin_segment();
  format::SegmentHeader header;
  std::memcpy(&header, sample.newest().data(), sizeof header);
  header.first_position = sample.positions.back() + 8;
  std::memcpy(sample.newest().data(), &header, sizeof header);
  test::reseal_segment(sample.journal.newest_name(), sample.newest());
  const auto damaged = replay(sample.journal);
  REQUIRE(damaged->error);
  CHECK(damaged->error->code == Errc::damaged);
  CHECK(mentions(*damaged->error, sample.journal.newest_name()));
}

TEST_CASE("a missing journal is accepted, and begins where the generation ends") {
  auto replayed = std::make_unique<Replayed>();
  REQUIRE(replayed->disk.make_directory("data"));
  Gate gate(1);
  test::Filters filters;
  const bloom::Filter& filter = filters.add(0, "key", 3);
  ReplayStart start{.cut = 1000, .positions = {}};
  start.positions.note(
      {.database = 0, .key = "key", .value = nullptr, .cut_position = 1000, .journal_position = 1200},
      filter);
  const auto report = replay_journal(replayed->disk, "data", replayed->filters.keyspace, gate, start, {});
  REQUIRE(report);
  CHECK(report->position == 1200);
  CHECK(report->segments == 0);

  // The next start reads the records after that position, although the generation is still the same.
  JournalFiles journal(1200);
  create(journal);
  add(journal, 1);
  const auto again = replay(journal, start);
  REQUIRE_FALSE(again->error);
  CHECK(again->items() == 1);
}

TEST_CASE("a journal may begin after the generation's cut only if all earlier segments are gone") {
  Sample sample(3);
  sample.journal.sync();
  sample.journal.begin_segment();
  const std::uint64_t second = sample.journal.position();
  add(sample.journal, 3);
  test::Filters filters;
  const bloom::Filter& filter = filters.add(0, "key", 3);
  const auto replay_from = [&](const JournalFiles& journal, std::uint64_t cut) {
    ReplayStart start{.cut = cut, .positions = {}};
    start.positions.note(
        {.database = 0, .key = "key", .value = nullptr, .cut_position = cut, .journal_position = second},
        filter);
    return replay(journal, std::move(start));
  };
  REQUIRE_FALSE(replay_from(sample.journal, 0)->error);
  SECTION("damage before a segment that begins there") {
    sample.journal.files().begin()->second[Sample::offset_of(sample.positions[1])] ^= std::byte{1};
    const auto replayed = replay_from(sample.journal, 0);
    REQUIRE(replayed->error);
    CHECK(mentions(*replayed->error, "data/journal-000000000001 is damaged at offset " +
                                         std::to_string(Sample::offset_of(sample.positions[1]))));
  }
  SECTION("a lost header before it") {
    sample.journal.files().begin()->second[3] ^= std::byte{1};
    CHECK(replay_from(sample.journal, 0)->error);
  }
}

TEST_CASE("a segment that became shorter is damaged if the journal would end in it") {
  Sample sample(3);
  Bytes& first = sample.newest();
  sample.journal.begin_segment();
  add(sample.journal, 3);
  const auto cut_off = [](Bytes& file, std::size_t byte_count) { file.resize(byte_count); };
  SECTION("in the last one, between two frames") {
    cut_off(sample.newest(), sizeof(format::SegmentHeader));
    const auto replayed = replay(sample.journal);
    REQUIRE(replayed->error);
    CHECK(replayed->error->code == Errc::damaged);
    CHECK(mentions(*replayed->error, "data/journal-000000000002 is damaged at offset 64: it has 64 bytes"));
    // The frames before the damage are applied, for salvage.
    CHECK(replayed->items() == 3);
    CHECK_FALSE(replay(sample.journal, {.cut = std::uint64_t{1} << 40, .positions = {}})->error);
  }
  SECTION("in an earlier one") {
    cut_off(first, Sample::offset_of(sample.positions[2]));
    CHECK(mentions(*replay(sample.journal)->error, "data/journal-000000000001 is damaged at offset " +
                                                       std::to_string(first.size()) + ": it has"));
  }
  SECTION("behind its last frame, with another segment") {
    cut_off(first, Sample::offset_of(sample.positions[2]) +
                       (Sample::offset_of(sample.positions[2]) - Sample::offset_of(sample.positions[1])));
    CHECK(replay(sample.journal)->items() == 4);
  }
}

TEST_CASE("removed segments before the cut that reappear do no harm") {
  Sample sample(1);
  for (std::uint64_t item = 1; item < 6; ++item) {
    sample.journal.sync();
    sample.journal.begin_segment();
    add(sample.journal, item);
  }
  const std::uint64_t cut = sample.journal.position();
  add(sample.journal, 6);
  auto& files = sample.journal.files();
  files.erase("journal-000000000002");
  files.erase("journal-000000000004");
  files["journal-000000000003"].clear();
  files["journal-000000000005"].resize(100);
  test::Filters filters;
  Gate gate(1);
  REQUIRE(sepal::writers::create(filters.keyspace, some_key, some_options));
  SimulatedDisk disk;
  sample.journal.put(disk, "data");
  const auto report = replay_journal(disk, "data", filters.keyspace, gate, {.cut = cut, .positions = {}}, {});
  REQUIRE(report);
  CHECK(report->items == 1);
  CHECK(report->position == sample.journal.position());
}

TEST_CASE("a journal that ends before a position that the generation relies on is damaged") {
  Sample sample(3);
  test::Filters filters;
  const bloom::Filter& filter = filters.add(0, "key", 3);
  const auto replay_to = [&](std::uint64_t position) {
    ReplayStart start;
    start.positions.note(
        {.database = 0, .key = "key", .value = nullptr, .cut_position = 0, .journal_position = position},
        filter);
    return replay(sample.journal, std::move(start));
  };
  CHECK_FALSE(replay_to(sample.journal.position())->error);
  const auto replayed = replay_to(sample.journal.position() + 8);
  REQUIRE(replayed->error);
  CHECK(replayed->error->code == Errc::damaged);
  CHECK(mentions(*replayed->error,
                 "data/journal-000000000001 is damaged at offset " + std::to_string(sample.journal.used())));
}

namespace {

// A generation whose strings, and perhaps a filter, were taken behind its cut.
struct TakenLater {
  value::ValuePtr string = *strings::String::of("text", test::roomy);
  test::Filters filters;
  bloom::Filter& filter = filters.add(0, "key", 3);

  [[nodiscard]] ReplayStart start(std::uint64_t cut, std::uint64_t string_position,
                                  std::uint64_t filter_position = 0) const {
    ReplayStart start{.cut = cut, .positions = {}};
    const auto note = [&](const value::Value& taken, std::uint64_t position) {
      start.positions.note(
          {.database = 0, .key = "key", .value = nullptr, .cut_position = cut, .journal_position = position},
          taken);
    };
    note(*string, string_position);
    if (filter_position != 0) note(filter, filter_position);
    return start;
  }
};

}  // namespace

TEST_CASE("without a journal a new one begins behind the strings too, and a later start finds it there") {
  const TakenLater taken;
  const bool has_filter = GENERATE(false, true);
  const auto start = [&] { return taken.start(1000, 1200, has_filter ? 1104 : 0); };
  test::Filters empty;
  SimulatedDisk disk;
  REQUIRE(disk.make_directory("data"));
  Gate gate(1);
  const auto report = replay_journal(disk, "data", empty.keyspace, gate, start(), {});
  REQUIRE(report);
  CHECK(report->position == 1200);
  CHECK(report->values_may_be_torn);

  // Earlier versions began it behind the filters only.
  for (const std::uint64_t first : {std::uint64_t{1200}, std::uint64_t{has_filter ? 1104U : 1000U}}) {
    JournalFiles journal(first);
    create(journal);
    add(journal, 1);
    const auto again = replay(journal, start());
    REQUIRE_FALSE(again->error);
    CHECK(again->items() == 1);
    CHECK(again->report.position == journal.position());
    // A journal from the cut on has everything, as far as anybody can tell.
    CHECK(again->report.values_may_be_torn == (first > 1000));
  }
}

TEST_CASE("a journal that ends before the position of a string is damaged") {
  const TakenLater taken;
  JournalFiles journal;
  create(journal, {.database = 0, .key = "before the cut"});
  const std::uint64_t cut = journal.position();
  create(journal);
  add(journal, 1);
  const auto whole = replay(journal, taken.start(cut, journal.position()));
  REQUIRE_FALSE(whole->error);
  CHECK_FALSE(whole->report.values_may_be_torn);
  const auto replayed = replay(journal, taken.start(cut, journal.position() + 8));
  REQUIRE(replayed->error);
  CHECK(replayed->error->code == Errc::damaged);
  CHECK(mentions(*replayed->error,
                 "everything before position " + std::to_string(journal.position() + 8) + " was on disk"));
}

TEST_CASE("a generation that was cut after all segments needs none of them") {
  Sample sample(3);
  for (const std::uint64_t beyond : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{1} << 40}) {
    const auto replayed =
        replay(sample.journal, {.cut = sample.journal.position() + beyond, .positions = {}});
    REQUIRE_FALSE(replayed->error);
    CHECK(replayed->report.position == sample.journal.position() + beyond);
    CHECK(replayed->report.frames == 0);
  }
}

TEST_CASE("a journal whose first segments are missing is damaged") {
  Sample sample(2);
  sample.journal.begin_segment();
  const std::uint64_t second = sample.journal.position();
  add(sample.journal, 2);
  sample.journal.begin_segment();
  add(sample.journal, 3);
  sample.journal.files().erase("journal-000000000001");
  const auto replayed = replay(sample.journal);
  REQUIRE(replayed->error);
  CHECK(replayed->error->code == Errc::damaged);
  CHECK(mentions(*replayed->error, "data/journal-000000000002 begins at position " + std::to_string(second)));
  CHECK(mentions(*replayed->error, "are missing"));
}

TEST_CASE("a missing segment in the middle is damage if later frames were synced") {
  Sample sample(2);
  sample.journal.begin_segment();
  add(sample.journal, 2);
  sample.journal.begin_segment();
  sample.journal.sync();
  add(sample.journal, 3);
  sample.journal.files().erase("journal-000000000002");
  const auto replayed = replay(sample.journal);
  REQUIRE(replayed->error);
  CHECK(mentions(*replayed->error, "data/journal-000000000001 is damaged at offset"));
}

TEST_CASE("a needed segment of another version is an error; one that is not needed does no harm") {
  Sample sample(2);
  sample.journal.begin_segment();
  const std::uint64_t second = sample.journal.position();
  add(sample.journal, 2);
  sample.journal.files().begin()->second[offsetof(format::SegmentHeader, version)] =
      std::byte{format::journal_version + 1};
  const auto replayed = replay(sample.journal);
  REQUIRE(replayed->error);
  CHECK(replayed->error->code == Errc::unsupported_version);
  CHECK(mentions(*replayed->error,
                 "data/journal-000000000001 was written by a newer version of Sepal (format " +
                     std::to_string(format::journal_version + 1)));
  CHECK(mentions(*replayed->error, "; use that version, or restore"));
  CHECK_FALSE(mentions(*replayed->error, "salvage"));
  test::Filters filters;
  Gate gate(1);
  REQUIRE(sepal::writers::create(filters.keyspace, some_key, some_options));
  CHECK(replay_journal(replayed->disk, "data", filters.keyspace, gate, {.cut = second, .positions = {}}, {}));
  // No release wrote a version below 4.
  sample.journal.files().begin()->second[offsetof(format::SegmentHeader, version)] = std::byte{3};
  const auto old = replay(sample.journal);
  REQUIRE(old->error);
  CHECK(mentions(*old->error,
                 "data/journal-000000000001 has format version 3 or flags that are unknown, and "
                 "this version reads format 4 to " +
                     std::to_string(format::journal_version)));
}

}  // namespace replay_segments_test
