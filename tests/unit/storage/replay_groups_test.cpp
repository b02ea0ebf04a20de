// Groups of frames, as a start and the tools read them: whole or not at all.
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/journal/journal.hpp>

#include "storage/format/synced_file.hpp"
#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_fixture.hpp"
#include "support/replayed.hpp"
#include "support/values.hpp"

namespace replay_groups_test {

using namespace sepal;
using namespace sepal::storage;
using namespace sepal::test;
using Grade = Finding::Grade;

namespace {

// Frames that add one item to this key have no zeros at their end.
constexpr keyspace::DatabaseKey even_key{.database = 3, .key = "12345678"};
constexpr bloom::FilterOptions large{.error_rate = 0.01, .capacity = 1000, .seed = some_options.seed};
constexpr std::uint64_t segment_bytes = 4096;
constexpr std::size_t group_items = 150;

void create_large(JournalFiles& journal) {
  journal.created(even_key, large, first_layer(large));
  journal.end_frame();
}

void put_item(JournalFiles& journal, std::uint64_t item) {
  const Fingerprint fingerprint = fingerprint_of("item " + std::to_string(item), some_options.seed);
  journal.added(even_key, {&fingerprint, 1});
}

// An item, then a group of three frames that add items. `divided`: the last of them is in the next segment.
struct Grouped {
  JournalFiles journal{0, segment_bytes};
  std::uint64_t begin = 0;  // positions of the group
  std::uint64_t last = 0;   // of its last frame
  std::uint64_t end = 0;

  explicit Grouped(bool divided) {
    create_large(journal);
    add(journal, 0, even_key);
    begin = journal.position();
    put_item(journal, 1);
    journal.continue_group();
    put_item(journal, 2);
    journal.continue_group();
    if (divided) journal.begin_segment();
    last = journal.position();
    put_item(journal, 3);
    journal.end_frame();
    end = journal.position();
  }
};

void cut(Bytes& file, std::size_t from) {
  std::fill(file.begin() + static_cast<std::ptrdiff_t>(from), file.end(), std::byte{0});
}

// A server that starts on a disk, as far as the journal is concerned.
struct Started {
  SimulatedDisk& disk;
  Filters filters;
  ReplayReport report;
  std::unique_ptr<Journal> journal;

  explicit Started(SimulatedDisk& on) : disk(on) {
    Gate gate(1);
    auto replayed = replay_journal(disk, "data", filters.keyspace, gate, {}, {});
    INFO((replayed ? "" : replayed.error().detail));
    REQUIRE(replayed);
    report = std::move(*replayed);
    REQUIRE(remove_beyond(disk, "data", report));
    auto opened = Journal::open(disk, "data", report.position, 1, small_journal, {});
    REQUIRE(opened);
    journal = std::move(*opened);
    journal->work();
  }
  // A group of two frames.
  void add_group(std::uint64_t first_item) const {
    keyspace::WorkerLog& log = journal->log(0);
    REQUIRE(log.admit(add_bytes(2 * group_items)) == keyspace::Admission::granted);
    std::vector<Fingerprint> some(group_items);
    for (std::size_t i = 0; i < some.size(); ++i)
      some[i] = fingerprint_of("item " + std::to_string(first_item + i), large.seed);
    const std::uint64_t frames = journal->status().frames;
    log.begin_group();
    log.begin_add();
    log.added(even_key, some);
    log.end_group();
    REQUIRE(journal->status().frames == frames + 2);
  }
  [[nodiscard]] std::uint64_t items() const {
    return sepal::test::filter_at(filters.keyspace, even_key)->item_count();
  }
};

// The journal ends before the group, and two later starts go on there.
void require_ends_before(const Grouped& grouped, bool divided) {
  SimulatedDisk disk;
  grouped.journal.put(disk, "data");
  {
    const Started first(disk);
    REQUIRE(first.items() == 1);
    REQUIRE(first.report.frames == 2);
    REQUIRE(first.report.operations == 2);
    REQUIRE(first.report.position == grouped.begin);
    REQUIRE(first.report.cut_bytes > 0);
    REQUIRE(first.report.cut_path == "data/journal-000000000001");
    REQUIRE(first.report.cut_offset == sizeof(format::SegmentHeader) + grouped.begin);
    REQUIRE(first.report.beyond.size() == (divided ? 2 : 1));
  }
  {
    const Started second(disk);
    REQUIRE(second.items() == 1);
    REQUIRE(second.report.position == grouped.begin);
    second.add_group(1000);
    REQUIRE(second.journal->sync_until(second.journal->position()));
  }
  disk.crash(Survival::synced, 1);
  std::uint64_t position = 0;
  {
    const Started third(disk);
    REQUIRE(third.items() == 1 + group_items);
    third.add_group(2000);
    position = third.journal->position();
  }
  const Started fourth(disk);
  REQUIRE(fourth.items() == 1 + 2 * group_items);
  REQUIRE(fourth.report.position >= position);
}

std::string joined(const std::vector<Finding>& findings, Grade grade) {
  std::string all;
  for (const Finding& finding : findings)
    if (finding.grade == grade) all += finding.text + "\n";
  return all;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<Finding> verified(const JournalFiles& journal) {
  SimulatedDisk disk;
  journal.put(disk, "data");
  const auto findings = verify_directory(disk, "data", {});
  REQUIRE(findings);
  return *findings;
}

struct Salvaged {
  std::uint64_t items = 0;
  std::string lost;
};

Salvaged salvaged(const JournalFiles& journal) {
  SimulatedDisk disk;
  journal.put(disk, "data");
  const auto report = salvage_directory(disk, "data", "saved", 5, {});
  REQUIRE(report);
  Salvaged result{.items = report->items, .lost = {}};
  for (const std::string& lost : report->lost) result.lost += lost + "\n";
  return result;
}

std::vector<std::string> inspected(const JournalFiles& journal, const std::string& name) {
  SimulatedDisk disk;
  journal.put(disk, "data");
  std::vector<std::string> lines;
  REQUIRE(inspect_file(disk, "data/" + name, [&](const Fact& fact) { lines.push_back(fact.line()); }));
  return lines;
}

}  // namespace

TEST_CASE("a group is applied whole, with the frames before and behind it") {
  const bool divided = GENERATE(false, true);
  Grouped grouped(divided);
  add(grouped.journal, 4, even_key);
  const auto replayed = replay(grouped.journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items(even_key) == 5);
  CHECK(replayed->report.frames == 6);
  CHECK(replayed->report.cut_bytes == 0);
  CHECK(replayed->report.position == grouped.journal.position());
  CHECK(joined(verified(grouped.journal), Grade::harmless) ==
        joined(verified(JournalFiles()), Grade::harmless));
}

TEST_CASE("a group may be longer than a segment, and than what one read brings") {
  constexpr bloom::FilterOptions larger{.error_rate = 0.01, .capacity = 400'000, .seed = 7};
  JournalFiles journal(0, journal_segment_bytes_min);
  journal.created(even_key, larger, first_layer(larger));
  journal.continue_group();
  std::uint64_t item = 0;
  constexpr std::uint64_t frames = 30;
  for (std::uint64_t frame = 0; frame < frames; ++frame) {
    std::vector<Fingerprint> some(10'000);
    for (Fingerprint& each : some) each = fingerprint_of("item " + std::to_string(item++), larger.seed);
    journal.added(even_key, {some.data(), some.size() / 2});
    some.erase(some.begin(), some.begin() + 5'000);
    journal.added(even_key, some);
    journal.continue_group();
  }
  REQUIRE(journal.files().size() == 3);
  const auto begun = replay(journal);
  REQUIRE_FALSE(begun->error);
  CHECK(begun->report.position == 0);
  CHECK(begun->report.frames == 0);
  CHECK(begun->filters.keyspace.total_size() == 0);
  CHECK(begun->report.beyond.size() == 2);
  const std::uint64_t beyond = begun->report.cut_bytes;
  CHECK(beyond > 4 * journal_segment_bytes_min / 2);

  add(journal, item, even_key);
  const auto replayed = replay(journal);
  REQUIRE_FALSE(replayed->error);
  CHECK(replayed->items(even_key) == frames * 10'000 + 1);
  CHECK(replayed->report.frames == frames + 2);
  CHECK(replayed->report.cut_bytes == 0);
}

TEST_CASE("a journal that was cut at any byte of a group ends before the group, and goes on there") {
  const bool divided = GENERATE(false, true);
  const Grouped whole(divided);
  const std::size_t first_end = divided ? static_cast<std::size_t>(whole.last) : 0;
  for (std::uint64_t position = whole.begin + 1; position < whole.end; ++position) {
    INFO("divided " << divided << " cut at position " << position);
    Grouped grouped = whole;
    auto& files = grouped.journal.files();
    if (divided && position >= whole.last) {
      cut(files["journal-000000000002"], sizeof(format::SegmentHeader) + (position - first_end));
    } else {
      cut(files["journal-000000000001"], Sample::offset_of(position));
      if (divided) cut(files["journal-000000000002"], 0);
    }
    grouped.journal.prepare_segment();
    require_ends_before(grouped, divided);
  }
}

TEST_CASE("a group whose last frame is in a segment that lost its header, or is gone, is left out") {
  const Grouped whole(true);
  for (const std::size_t kept : {std::size_t{1}, sizeof(format::SegmentHeader) - 1}) {
    Grouped grouped = whole;
    auto& second = grouped.journal.files()["journal-000000000002"];
    // The frame is on disk, and the header is not.
    std::fill_n(second.begin() + static_cast<std::ptrdiff_t>(kept), sizeof(format::SegmentHeader) - kept,
                std::byte{0});
    grouped.journal.prepare_segment();
    require_ends_before(grouped, true);
  }
  Grouped grouped = whole;
  grouped.journal.files().erase("journal-000000000002");
  grouped.journal.prepare_segment();
  require_ends_before(grouped, false);
}

TEST_CASE("a group with a wrong byte anywhere is left out") {
  const bool divided = GENERATE(false, true);
  const Grouped whole(divided);
  for (std::uint64_t position = whole.begin; position < whole.end; ++position) {
    INFO("divided " << divided << " wrong at position " << position);
    Grouped grouped = whole;
    auto& files = grouped.journal.files();
    if (divided && position >= whole.last) {
      files["journal-000000000002"][Sample::offset_of(position - whole.last)] ^= std::byte{0x41};
    } else {
      files["journal-000000000001"][Sample::offset_of(position)] ^= std::byte{0x41};
    }
    grouped.journal.prepare_segment();
    require_ends_before(grouped, divided);
  }
}

TEST_CASE("only what was on disk is damage: a group behind it is a torn tail") {
  const bool divided = GENERATE(false, true);
  Grouped grouped(divided);
  const std::string newest = grouped.journal.newest_name();
  SECTION("everything before the group was on disk") {
    JournalFiles before(0, segment_bytes);
    create_large(before);
    add(before, 0, even_key);
    REQUIRE(before.position() == grouped.begin);
    before.mark();
    grouped.journal.files()["SYNCED"] = before.files().at("SYNCED");
    Bytes& last = grouped.journal.files()[newest];
    last[grouped.journal.used() - 1] ^= std::byte{1};
    CHECK(replay(grouped.journal)->report.position == grouped.begin);
  }
  SECTION("SYNCED says that the group was on disk") {
    grouped.journal.mark();
    CHECK(replay(grouped.journal)->items(even_key) == 4);
    grouped.journal.files()[newest][grouped.journal.used() - 1] ^= std::byte{1};
    const auto replayed = replay(grouped.journal);
    REQUIRE(replayed->error);
    CHECK(replayed->error->code == Errc::damaged);
    CHECK(replayed->items(even_key) == 1);
  }
  SECTION("a later frame says that the group was on disk") {
    grouped.journal.sync();
    const std::size_t end = grouped.journal.used();
    add(grouped.journal, 4, even_key);
    CHECK(replay(grouped.journal)->items(even_key) == 5);
    grouped.journal.files()[newest][end - 1] ^= std::byte{1};
    const auto replayed = replay(grouped.journal);
    REQUIRE(replayed->error);
    CHECK(replayed->error->code == Errc::damaged);
    CHECK(replayed->items(even_key) == 1);
  }
}

TEST_CASE("a journal that ends before a group is judged there, at the first start as at the second") {
  Grouped grouped(true);
  Bytes& first = grouped.journal.files()["journal-000000000001"];
  grouped.journal.files()["journal-000000000002"][grouped.journal.used() - 1] ^= std::byte{1};
  REQUIRE_FALSE(replay(grouped.journal)->error);
  SECTION("the segment became shorter behind the frames of the group") {
    first.resize(Sample::offset_of(grouped.last));
    for (const bool second : {false, true}) {
      if (second) grouped.journal.files().erase("journal-000000000002");
      const auto replayed = replay(grouped.journal);
      REQUIRE(replayed->error);
      CHECK(mentions(*replayed->error, "data/journal-000000000001 is damaged at offset " +
                                           std::to_string(first.size()) + ": it has"));
      CHECK(contains(salvaged(grouped.journal).lost,
                     "transaction at position " + std::to_string(grouped.begin)));
      CHECK(contains(joined(verified(grouped.journal), Grade::damaged), "journal-000000000001"));
    }
  }
  SECTION("the generation relies on a position within the group") {
    test::Filters filters;
    const bloom::Filter& filter = filters.add(0, "key", 3);
    for (const std::uint64_t position : {grouped.begin, grouped.begin + 8, grouped.last}) {
      ReplayStart start;
      start.positions.note(
          {.database = 0, .key = "key", .value = nullptr, .cut_position = 0, .journal_position = position},
          filter);
      CHECK(replay(grouped.journal, std::move(start))->error.has_value() == (position > grouped.begin));
    }
  }
}

TEST_CASE("a change of a group that makes no sense is named by its own segment") {
  JournalFiles journal(0, segment_bytes);
  create(journal, even_key);
  const std::size_t wrong = journal.used();
  put_item(journal, 1);
  journal.created(even_key, some_options, first_layer());
  journal.continue_group();
  journal.begin_segment();
  put_item(journal, 2);
  journal.end_frame();
  const std::string place = "data/journal-000000000001 is damaged at offset " + std::to_string(wrong);
  const auto replayed = replay(journal);
  REQUIRE(replayed->error);
  CHECK(replayed->error->detail.starts_with(place));
  CHECK(contains(salvaged(journal).lost, place));
}

TEST_CASE("bytes of a group that are no operations are named by their own segment") {
  JournalFiles journal(0, segment_bytes);
  const std::size_t wrong = journal.used();
  journal.frame_of(Bytes(sizeof(format::OperationHead), std::byte{0xff}), format::frame_continues);
  journal.begin_segment();
  create(journal, even_key);
  CHECK(contains(joined(verified(journal), Grade::damaged),
                 "data/journal-000000000001 is damaged at offset " + std::to_string(wrong)));
}

TEST_CASE("verify says that the journal ends before a transaction") {
  const bool divided = GENERATE(false, true);
  Grouped grouped(divided);
  CHECK_FALSE(contains(joined(verified(grouped.journal), Grade::harmless), "transaction"));
  grouped.journal.files()[grouped.journal.newest_name()][grouped.journal.used() - 1] ^= std::byte{1};
  grouped.journal.prepare_segment();
  const std::vector<Finding> findings = verified(grouped.journal);
  CHECK(joined(findings, Grade::damaged).empty());
  const std::string harmless = joined(findings, Grade::harmless);
  CHECK(contains(harmless, "data/journal-000000000001 is torn at offset " +
                               std::to_string(Sample::offset_of(grouped.begin)) + ", before a transaction"));
  // The changes of the group are not counted.
  CHECK(contains(joined(findings, Grade::fine), "has 2 changes with 1 items"));
}

TEST_CASE("salvage keeps no part of a transaction, and names one that damage took") {
  const bool divided = GENERATE(false, true);
  Grouped grouped(divided);
  CHECK(salvaged(grouped.journal).items == 4);
  const std::string newest = grouped.journal.newest_name();
  const std::size_t end = grouped.journal.used();
  SECTION("it had not got to the disk") {
    grouped.journal.files()[newest][end - 1] ^= std::byte{1};
    const Salvaged rest = salvaged(grouped.journal);
    CHECK(rest.items == 1);
    CHECK_FALSE(contains(rest.lost, "journal"));
  }
  SECTION("it was on disk") {
    grouped.journal.sync();
    add(grouped.journal, 4, even_key);
    grouped.journal.files()[newest][end - 1] ^= std::byte{1};
    const Salvaged rest = salvaged(grouped.journal);
    CHECK(rest.items == 1);
    CHECK(contains(rest.lost, "transaction at position " + std::to_string(grouped.begin)));
    CHECK(contains(rest.lost, newest + " is damaged at offset " + std::to_string(end - 64)));
  }
}

TEST_CASE("inspect says which frames continue in the next") {
  const Grouped grouped(true);
  std::vector<std::string> frames;
  std::string end;
  for (const std::string& name : {std::string("journal-000000000001"), std::string("journal-000000000002")})
    for (const std::string& line : inspected(grouped.journal, name)) {
      if (line.starts_with("frame ")) frames.push_back(line);
      if (line.starts_with("end ") && end.empty()) end = line;
    }
  REQUIRE(frames.size() == 5);
  for (std::size_t i = 0; i < frames.size(); ++i)
    CHECK(frames[i].ends_with(" group=\"continues\"") == (i == 2 || i == 3));
  CHECK_FALSE(contains(frames[0], "group"));
  CHECK(contains(end, " position=" + std::to_string(grouped.last) + " "));
  CHECK(end.ends_with(" group_position=" + std::to_string(grouped.begin)));
}

}  // namespace replay_groups_test
