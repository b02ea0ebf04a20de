// Journals that end in the middle, that are damaged, that lie, and those that are fine.
#include <sepal/base/gate.hpp>
#include <sepal/storage/replay.hpp>

#include <cstring>
#include <string>
#include <utility>

#include "support/catch.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"

using namespace sepal;
using namespace sepal::storage;
using test::Bytes;
using test::JournalFiles;
using test::SimulatedDisk;

namespace {

constexpr keyspace::DatabaseKey some_key{.database = 3, .key = "key"};
constexpr filter::FilterOptions some_options{.error_rate = 0.01, .capacity = 100, .seed = 7};

filter::LayerPlan first_layer(const filter::FilterOptions& options = some_options) {
  return (*filter::Filter::create(options, test::roomy))->newest_layer().plan();
}

void create(JournalFiles& journal, keyspace::DatabaseKey key = some_key) {
  journal.created(key, some_options, first_layer());
  journal.end_frame();
}

void add(JournalFiles& journal, std::uint64_t item, keyspace::DatabaseKey key = some_key) {
  const Fingerprint fingerprint = fingerprint_of("item " + std::to_string(item), some_options.seed);
  journal.added(key, {&fingerprint, 1});
  journal.end_frame();
}

struct Replayed {
  SimulatedDisk disk;
  test::Filters filters;
  std::optional<Error> error;
  ReplayReport report;

  [[nodiscard]] std::uint64_t items(keyspace::DatabaseKey key = some_key) const {
    const filter::Filter* const filter = filters.keyspace.find(key);
    return filter == nullptr ? 0 : filter->item_count();
  }
};

std::unique_ptr<Replayed> replay(const JournalFiles& journal, ReplayStart start = {}) {
  auto replayed = std::make_unique<Replayed>();
  journal.put(replayed->disk, "data");
  Gate gate(2);
  auto report =
      replay_journal(replayed->disk, "data", replayed->filters.keyspace, gate, std::move(start), {});
  if (report) {
    replayed->report = std::move(*report);
  } else {
    replayed->error = report.error();
  }
  return replayed;
}

bool mentions(const Error& error, const std::string& what) {
  return error.detail.find(what) != std::string::npos;
}

// A filter with one item to a frame.
struct Sample {
  JournalFiles journal;
  std::vector<std::uint64_t> positions;  // of the frames with items

  explicit Sample(std::uint64_t items) {
    create(journal);
    for (std::uint64_t item = 0; item < items; ++item) {
      positions.push_back(journal.position());
      add(journal, item);
    }
  }
  [[nodiscard]] static std::size_t offset_of(std::uint64_t position) {
    return static_cast<std::size_t>(sizeof(format::SegmentHeader) + position);
  }
  Bytes& newest() { return journal.files().rbegin()->second; }
};

}  // namespace

TEST_CASE("a journal that is cut off anywhere is replayed up to the last whole frame", "[storage][replay]") {
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
    // In whole words.
    CHECK(replayed->report.cut_bytes < length - Sample::offset_of(sample.positions[whole]) + 8);
    CHECK(replayed->report.cut_path == "data/" + torn.journal.newest_name());
    CHECK(replayed->report.cut_offset == Sample::offset_of(sample.positions[whole]));
  }
}

TEST_CASE("any byte of a frame that is wrong ends the journal there, and nothing of it is applied",
          "[storage][replay]") {
  Sample sample(3);
  const std::size_t begin = Sample::offset_of(sample.positions[1]);
  // Without the zeros behind the operations.
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

TEST_CASE("what a later frame says was synced is damaged, not torn", "[storage][replay]") {
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
  // The last frame is not among what is known to be synced.
  sample.newest()[sample.journal.used() - 10] ^= std::byte{1};
  const auto replayed = replay(sample.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items() == 3);
}

TEST_CASE("damage is known by a frame of a later segment, even by one that lost its header",
          "[storage][replay]") {
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
      // Where its frames stand is not known when more is lost before it.
      REQUIRE_FALSE(replayed->error);
      continue;
    }
    REQUIRE(replayed->error);
    CHECK(mentions(*replayed->error, "data/journal-000000000001 is damaged at offset " +
                                         std::to_string(Sample::offset_of(sample.positions[2]))));
  }
}

TEST_CASE("a segment whose header never got to the disk is cut off with what follows", "[storage][replay]") {
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

TEST_CASE("segments that were prepared are no part of the journal, and go before it goes on",
          "[storage][replay]") {
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

TEST_CASE("a segment that begins at an earlier end takes the place of what was cut off there",
          "[storage][replay]") {
  Sample sample(3);
  // As if a start had found the third frame torn, and the rest of the file were still there.
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

TEST_CASE("a segment that begins inside a frame of the one before is damaged", "[storage][replay]") {
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

TEST_CASE("a journal that is not there is fine, and goes on where the generation ends", "[storage][replay]") {
  auto replayed = std::make_unique<Replayed>();
  REQUIRE(replayed->disk.make_directory("data"));
  Gate gate(1);
  test::Filters filters;
  const filter::Filter& filter = filters.add(0, "key", 3);
  ReplayStart start{.cut = 1000, .positions = {}};
  start.positions.note(
      {.database = 0, .key = "key", .filter = nullptr, .cut_position = 1000, .journal_position = 1200},
      filter);
  const auto report = replay_journal(replayed->disk, "data", replayed->filters.keyspace, gate, start, {});
  REQUIRE(report);
  CHECK(report->position == 1200);
  CHECK(report->segments == 0);

  // What is recorded from there on is read the next time, though the generation is still the same.
  JournalFiles journal(1200);
  create(journal);
  add(journal, 1);
  const auto again = replay(journal, start);
  REQUIRE_FALSE(again->error);
  CHECK(again->items() == 1);
}

TEST_CASE("only a journal whose segments before are all gone may begin behind the generation's cut",
          "[storage][replay]") {
  Sample sample(3);
  sample.journal.sync();
  sample.journal.begin_segment();
  const std::uint64_t second = sample.journal.position();
  add(sample.journal, 3);
  test::Filters filters;
  const filter::Filter& filter = filters.add(0, "key", 3);
  const auto replay_from = [&](const JournalFiles& journal, std::uint64_t cut) {
    ReplayStart start{.cut = cut, .positions = {}};
    start.positions.note(
        {.database = 0, .key = "key", .filter = nullptr, .cut_position = cut, .journal_position = second},
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

TEST_CASE("a segment that became shorter is damaged where the journal would end in it", "[storage][replay]") {
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
    // What stands before is applied, for salvage.
    CHECK(replayed->items() == 3);
    CHECK_FALSE(replay(sample.journal, {.cut = std::uint64_t{1} << 40, .positions = {}})->error);
  }
  SECTION("in one before") {
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

TEST_CASE("segments below the cut that came back after they were removed do no harm", "[storage][replay]") {
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
  REQUIRE(filters.keyspace.create(some_key, some_options));
  SimulatedDisk disk;
  sample.journal.put(disk, "data");
  const auto report = replay_journal(disk, "data", filters.keyspace, gate, {.cut = cut, .positions = {}}, {});
  REQUIRE(report);
  CHECK(report->items == 1);
  CHECK(report->position == sample.journal.position());
}

TEST_CASE("a journal that ends before what the generation relies on is damaged", "[storage][replay]") {
  Sample sample(3);
  test::Filters filters;
  const filter::Filter& filter = filters.add(0, "key", 3);
  const auto replay_to = [&](std::uint64_t position) {
    ReplayStart start;
    start.positions.note(
        {.database = 0, .key = "key", .filter = nullptr, .cut_position = 0, .journal_position = position},
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

TEST_CASE("a generation cut behind all segments needs none of them", "[storage][replay]") {
  Sample sample(3);
  for (const std::uint64_t beyond : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{1} << 40}) {
    const auto replayed =
        replay(sample.journal, {.cut = sample.journal.position() + beyond, .positions = {}});
    REQUIRE_FALSE(replayed->error);
    CHECK(replayed->report.position == sample.journal.position() + beyond);
    CHECK(replayed->report.frames == 0);
  }
}

TEST_CASE("a journal whose first segments are missing is damaged", "[storage][replay]") {
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

TEST_CASE("a missing segment in the middle is damage when what follows was synced", "[storage][replay]") {
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

TEST_CASE("a segment of another version is unsupported, one that nobody needs does no harm",
          "[storage][replay]") {
  Sample sample(2);
  sample.journal.begin_segment();
  const std::uint64_t second = sample.journal.position();
  add(sample.journal, 2);
  sample.journal.files().begin()->second[offsetof(format::SegmentHeader, version)] =
      std::byte{format::journal_version + 1};
  const auto replayed = replay(sample.journal);
  REQUIRE(replayed->error);
  CHECK(replayed->error->code == Errc::unsupported_version);
  CHECK(mentions(*replayed->error, "data/journal-000000000001 has format version " +
                                       std::to_string(format::journal_version + 1)));
  test::Filters filters;
  Gate gate(1);
  REQUIRE(filters.keyspace.create(some_key, some_options));
  CHECK(replay_journal(replayed->disk, "data", filters.keyspace, gate, {.cut = second, .positions = {}}, {}));
}

TEST_CASE("replay stops where the journal had been off, and says what it leaves out", "[storage][replay]") {
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

  // A generation that was cut behind it holds what the journal does not.
  test::Filters filters;
  Gate gate(1);
  REQUIRE(filters.keyspace.create(some_key, some_options));
  const auto report =
      replay_journal(replayed->disk, "data", filters.keyspace, gate, {.cut = on, .positions = {}}, {});
  REQUIRE(report);
  CHECK_FALSE(report->resumed);
  CHECK(filters.keyspace.find(some_key)->item_count() == 2);
}

TEST_CASE("frames of the greatest length are read, also where one ends and the next begins a buffer",
          "[storage][replay]") {
  const std::size_t count =
      (format::frame_body_bytes_max - sizeof(format::OperationHead) - some_key.key.size()) /
      sizeof(Fingerprint);
  const filter::FilterOptions options{.error_rate = 0.01, .capacity = 40 * count, .seed = 7};
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
  CHECK(test::contains(*replayed->filters.keyspace.find(some_key), "5"));
}

TEST_CASE("a replay that is given up ends with that", "[storage][replay]") {
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

TEST_CASE("memory limits that were lowered since do not refuse what was accepted then", "[storage][replay]") {
  Sample sample(3);
  SimulatedDisk disk;
  sample.journal.put(disk, "data");
  test::FreeingHousekeeper housekeeper;
  keyspace::Keyspace keyspace({.memory_max = 1, .machine_bytes = 1 << 20, .keys_max = 0}, housekeeper);
  Gate gate(1);
  CHECK(replay_journal(disk, "data", keyspace, gate, {}, {}));
  CHECK(keyspace.find(some_key)->item_count() == 3);

  // What the machine cannot hold is refused before it is allocated.
  keyspace::Keyspace tiny({.machine_bytes = 100}, housekeeper);
  const auto refused = replay_journal(disk, "data", tiny, gate, {}, {});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::too_large);
  CHECK(mentions(refused.error(), "data/journal-000000000001 has a change at offset 64"));
}
