// Mirrors in generations and in the journal.
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/storage/replay/replay.hpp>

#include "support/catch.hpp"
#include "support/replayed.hpp"

namespace mirrors_test {

using namespace sepal;
using namespace sepal::storage;
using namespace sepal::test;
using keyspace::Mirror;
using keyspace::MirrorState;

namespace {

constexpr keyspace::DatabaseKey next_key{.database = 3, .key = "next"};

Mirror some_mirror(MirrorState state = MirrorState::whole) {
  return {.database = 3, .source = "key", .target = "next", .state = state, .items_before = 4};
}

// A journal with two filters, and a mirror from the first to the second.
JournalFiles mirrored() {
  JournalFiles journal;
  create(journal);
  create(journal, next_key);
  journal.mirrored(some_mirror());
  journal.end_frame();
  return journal;
}

std::vector<Mirror> mirrors_after(const JournalFiles& journal) {
  const auto replayed = replay(journal);
  REQUIRE_FALSE(replayed->error);
  return replayed->filters.keyspace.mirrors().all();
}

// Saves two filters, and a mirror from the first to the second.
void save(SimulatedDisk& disk, MirrorState state) {
  Filters filters;
  filters.add(3, "key", 5);
  filters.add(3, "next", 1);
  REQUIRE(filters.keyspace.begin_mirror(some_mirror(state)));
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
}

}  // namespace

TEST_CASE("a replay restores mirrors, with their state and the source's count") {
  JournalFiles journal = mirrored();
  CHECK(mirrors_after(journal) == std::vector{some_mirror()});
  journal.mirrored(some_mirror(MirrorState::no_memory));
  journal.end_frame();
  CHECK(mirrors_after(journal) == std::vector{some_mirror(MirrorState::no_memory)});
  journal.mirrored({.database = 3, .source = "key", .target = "", .state = MirrorState::off});
  journal.end_frame();
  CHECK(mirrors_after(journal).empty());
}

TEST_CASE("a replay ends mirrors when their keys change, as the keyspace did") {
  JournalFiles journal = mirrored();
  SECTION("removed") {
    journal.removed(next_key);
  }
  SECTION("committed") {
    journal.renamed(3, "next", "key");
  }
  SECTION("flushed") {
    journal.flushed(3);
  }
  journal.end_frame();
  CHECK(mirrors_after(journal).empty());
}

TEST_CASE("in a replay, mirrors follow renamed filters") {
  JournalFiles journal = mirrored();
  journal.renamed(3, "next", "elsewhere");
  journal.mirrored({.database = 3, .source = "key", .target = "elsewhere", .state = MirrorState::full});
  journal.end_frame();
  const auto mirrors = mirrors_after(journal);
  REQUIRE(mirrors.size() == 1);
  CHECK(mirrors[0].target == "elsewhere");
  CHECK(mirrors[0].state == MirrorState::full);
}

TEST_CASE("a generation keeps the mirrors of its cut") {
  const MirrorState state = GENERATE(MirrorState::whole, MirrorState::layer_limit);
  SimulatedDisk disk;
  save(disk, state);
  const LoadOutcome loaded = open_and_load(disk, "data");
  REQUIRE_FALSE(loaded.error);
  CHECK(loaded.report.mirrors == std::vector{some_mirror(state)});
  std::vector<std::string> lines;
  REQUIRE(inspect_file(disk, "data/generation-000000000001/MANIFEST",
                       [&](const Fact& fact) { lines.push_back(fact.line()); }));
  CHECK(lines.back().find("key=\"key\" target=\"next\"") != std::string::npos);
}

TEST_CASE("a replay begins with the mirrors of the generation, which the journal then changes") {
  JournalFiles journal;
  journal.mirrored({.database = 3, .source = "key", .target = "", .state = MirrorState::off});
  journal.end_frame();
  SimulatedDisk disk;
  journal.put(disk, "data");
  Filters filters;
  Gate gate(1);
  const ReplayStart with_mirror{.cut = 0, .positions = {}, .mirrors = {some_mirror()}};
  filters.add(3, "key", 1);
  SECTION("whose keys are there") {
    filters.add(3, "next", 1);
    REQUIRE(replay_journal(disk, "data", filters.keyspace, gate, with_mirror, {}));
    CHECK(filters.keyspace.mirrors().empty());
  }
  SECTION("whose keys are not") {
    const auto report = replay_journal(disk, "data", filters.keyspace, gate, with_mirror, {});
    REQUIRE(!report);
    CHECK(report.error().code == Errc::damaged);
    CHECK(report.error().detail.find("sepal salvage") != std::string::npos);
  }
}

TEST_CASE("salvage keeps a mirror whose filters it has, and reports other mirrors as lost") {
  SimulatedDisk disk;
  save(disk, MirrorState::whole);
  JournalFiles journal;
  const bool lost = GENERATE(false, true);
  if (lost) {
    journal.removed(next_key);
    journal.mirrored(some_mirror());
    journal.mirrored(some_mirror(MirrorState::full));
    journal.end_frame();
  }
  journal.put(disk, "data");
  const auto report = salvage_directory(disk, "data", "saved", 5, {});
  REQUIRE(report);
  CHECK(report->lost.empty());
  const LoadOutcome loaded = open_and_load(disk, "saved");
  REQUIRE_FALSE(loaded.error);
  CHECK(loaded.report.mirrors.size() == (lost ? 0 : 1));
}

}  // namespace mirrors_test
