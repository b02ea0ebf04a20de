// `sepal verify` and `sepal salvage` on a directory with unreadable parts.
#include <sepal/storage/examine/examine.hpp>

#include "storage/disk/tolerant_disk.hpp"
#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_files.hpp"
#include "support/storage_fixture.hpp"

namespace unreadable_test {

using namespace sepal;
using namespace sepal::storage;
using test::SimulatedDisk;
using Grade = Finding::Grade;

namespace {

constexpr bloom::FilterOptions some_options{.error_rate = 0.01, .capacity = 100, .seed = 7};
constexpr keyspace::DatabaseKey recorded_key{.database = 1, .key = "recorded"};
constexpr DataRange everything{.begin = 0, .end = std::uint64_t{1} << 40};
const std::string folder = "data/generation-000000000001/";

bool any_mentions(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines,
                             [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

void save(SimulatedDisk& disk, const test::Filters& filters) {
  auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt, {.own_file_bytes_min = 200});
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
}

// Makes a directory with small filters in a pack, `large` in a file of its own, and `recorded` in the
// journal.
void put_directory(SimulatedDisk& disk) {
  test::Filters filters;
  filters.add(0, "small", 5, {.error_rate = 0.1, .capacity = 10, .seed = 1});
  filters.add(3, "other", 5, {.error_rate = 0.1, .capacity = 10, .seed = 2});
  filters.add(0, "large", 5, {.error_rate = 0.01, .capacity = 200, .seed = 3});
  save(disk, filters);
  test::JournalFiles journal(0, 4096);
  journal.created(recorded_key, some_options,
                  (*bloom::Filter::create(some_options, test::roomy))->newest_layer().plan());
  journal.end_frame();
  journal.put(disk, "data");
}

std::vector<std::string> damage_of(SimulatedDisk& disk) {
  const auto findings = verify_directory(disk, "data", {});
  REQUIRE(findings);
  std::vector<std::string> damaged;
  for (const Finding& finding : *findings)
    if (finding.grade == Grade::damaged) damaged.push_back(finding.text);
  return damaged;
}

struct Salvaged {
  SalvageReport report;
  std::set<std::string> keys;
};

Salvaged salvage(SimulatedDisk& disk) {
  const auto report = salvage_directory(disk, "data", "saved", 5, {});
  INFO((report ? "" : report.error().detail));
  REQUIRE(report);
  const test::LoadOutcome loaded = test::open_and_load(disk, "saved");
  REQUIRE_FALSE(loaded.error);
  Salvaged salvaged{.report = *report, .keys = {}};
  for (const auto& [key, filter] : loaded.filters) salvaged.keys.insert(key.second);
  return salvaged;
}

// A file of put_directory(), and the filters that are left without it.
struct Part {
  std::string path;
  std::set<std::string> left;
  bool spare = false;  // nothing is lost without it
};

const std::vector<Part> parts{{"data/CURRENT", {"small", "other", "large", "recorded"}, true},
                              {"data/SEED", {"small", "other", "large", "recorded"}, true},
                              {folder + "MANIFEST", {"small", "other", "large"}},
                              {folder + "pack-0", {"large", "recorded"}},
                              {folder + "filter-1-0", {"small", "other", "recorded"}},
                              {"data/journal-000000000001", {"small", "other", "large"}}};

}  // namespace

TEST_CASE("verify goes on after an unreadable file, and salvage saves all others") {
  for (const Part& part : parts) {
    INFO(part.path);
    SimulatedDisk disk;
    put_directory(disk);
    disk.wear_out(part.path, everything);
    CHECK(any_mentions(damage_of(disk), part.path + ": Input/output error"));
    const Salvaged salvaged = salvage(disk);
    CHECK(any_mentions(part.spare ? salvaged.report.noted : salvaged.report.lost,
                       part.path + ": Input/output error"));
    CHECK(salvaged.report.lost.empty() == part.spare);
    CHECK(salvaged.keys == part.left);
  }
}

TEST_CASE("verify goes on after a folder in the place of a file, and salvage saves all other files") {
  for (const Part& part : parts) {
    INFO(part.path);
    SimulatedDisk disk;
    put_directory(disk);
    REQUIRE(disk.remove(part.path));
    disk.put(Path(part.path) / "inside", {});
    CHECK(any_mentions(damage_of(disk), part.path + ": it is not a regular file but a folder"));
    const Salvaged salvaged = salvage(disk);
    CHECK(any_mentions(part.spare ? salvaged.report.noted : salvaged.report.lost,
                       part.path + ": it is not a regular file but a folder"));
    CHECK(salvaged.report.lost.empty() == part.spare);
    CHECK(salvaged.keys == part.left);
  }
}

TEST_CASE("verify reports all parts that cannot be read") {
  SimulatedDisk disk;
  put_directory(disk);
  for (const Part& part : parts)
    if (part.path != "data/CURRENT" && part.path != folder + "MANIFEST") disk.wear_out(part.path, everything);
  const auto damaged = damage_of(disk);
  for (const Part& part : parts)
    if (part.path != "data/CURRENT" && part.path != folder + "MANIFEST")
      CHECK(any_mentions(damaged, part.path));
  CHECK(salvage(disk).keys.empty());
}

TEST_CASE("a bad sector costs only its filters, and they are named") {
  constexpr int count = 50;
  SimulatedDisk disk;
  test::Filters filters;
  for (int i = 0; i < count; ++i)
    filters.add(2, "key" + std::to_string(i), 5, {.error_rate = 0.01, .capacity = 100, .seed = 1});
  auto directory = DataDirectory::open(disk, "data", 0x1f, std::nullopt);
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  const std::uint64_t page = TolerantDisk::piece_bytes;
  disk.wear_out(folder + "pack-0", {.begin = page + 100, .end = page + 101});
  const auto damaged = damage_of(disk);
  const Salvaged salvaged = salvage(disk);
  CHECK(salvaged.keys.size() < count);
  CHECK(salvaged.keys.size() > count / 2);
  CHECK(any_mentions(salvaged.report.lost, "(4096 bytes, from offset 4096 on)"));
  // The head of the first lost filter is before the bad sector.
  const auto named = [](const std::vector<std::string>& lines) {
    return any_mentions(lines, "(the filter database=2 key=\"key");
  };
  CHECK(named(damaged));
  CHECK(named(salvaged.report.lost));
}

TEST_CASE("a bad sector in the journal costs the changes behind it") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "kept", 0, some_options);
  save(disk, filters);
  test::JournalFiles journal(0, 1 << 14);
  constexpr int count = 90;
  for (int i = 0; i < count; ++i) {
    const Fingerprint fingerprint = fingerprint_of(std::to_string(i), some_options.seed);
    journal.added({.database = 0, .key = "kept"}, {&fingerprint, 1});
    journal.end_frame();
  }
  REQUIRE(journal.used() > 5000);
  journal.put(disk, "data");
  disk.wear_out("data/journal-000000000001", {.begin = 5000, .end = 5001});
  CHECK(any_mentions(damage_of(disk), "data/journal-000000000001: Input/output error"));
  const Salvaged salvaged = salvage(disk);
  CHECK(salvaged.report.operations > 30);
  CHECK(salvaged.report.operations < count);
  CHECK(salvaged.report.items == salvaged.report.operations);
  CHECK(any_mentions(salvaged.report.lost, "data/journal-000000000001: Input/output error"));
}

TEST_CASE("verify and salvage name the database and key of a lost filter") {
  const std::string large = "the filter database=0 key=\"large\"";
  SimulatedDisk disk;
  put_directory(disk);
  SECTION("whose bitmap is damaged") {
    auto bytes = disk.files().at(folder + "filter-1-0");
    bytes.back() ^= std::byte{1};
    disk.put(folder + "filter-1-0", bytes);
    CHECK(any_mentions(damage_of(disk), large));
    CHECK(any_mentions(salvage(disk).report.lost, large));
  }
  SECTION("whose file is gone") {
    REQUIRE(disk.remove(folder + "filter-1-0"));
    CHECK(any_mentions(salvage(disk).report.lost,
                       "1 keys that " + folder + "filter-1-0 had, as the MANIFEST says"));
  }
  SECTION("to which the journal adds") {
    REQUIRE(disk.remove(folder + "filter-1-0"));
    REQUIRE(disk.remove("data/journal-000000000001"));
    test::JournalFiles journal(0, 4096);
    const Fingerprint fingerprint = fingerprint_of("new", 3);
    journal.added({.database = 0, .key = "large"}, {&fingerprint, 1});
    journal.end_frame();
    journal.put(disk, "data");
    CHECK(any_mentions(salvage(disk).report.lost,
                       "1 items that the journal adds to " + large + ", which is lost"));
  }
  SECTION("that came whole") {
    REQUIRE(disk.remove("data/journal-000000000001"));
    test::JournalFiles journal(0, 4096);
    journal.adopted({.database = 5, .key = "came"}, {.file = {.number = 7, .seal = 1}});
    journal.end_frame();
    journal.put(disk, "data");
    CHECK(any_mentions(damage_of(disk), "(the filter database=5 key=\"came\")"));
    CHECK(any_mentions(salvage(disk).report.lost, "the filter database=5 key=\"came\", which came whole: "));
  }
}

TEST_CASE("a mirror that is lost with one of its filters is named") {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(4, "source", 5, {.error_rate = 0.01, .capacity = 200, .seed = 1});
  filters.add(4, "target", 5, {.error_rate = 0.01, .capacity = 200, .seed = 1});
  REQUIRE(filters.keyspace.begin_mirror({.database = 4, .source = "source", .target = "target"}));
  save(disk, filters);
  disk.wear_out(folder + "filter-1-0", everything);
  CHECK(any_mentions(
      salvage(disk).report.lost,
      "the mirror from the filter database=4 key=\"source\" to the filter database=4 key=\"target\""));
}

TEST_CASE("verify finds all damaged filters of a pack") {
  SimulatedDisk disk;
  put_directory(disk);
  auto bytes = disk.files().at(folder + "pack-0");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // The bitmap of the first record ends with a checksum before the second record.
  const std::size_t second = text.find("SPLR", text.find("SPLR") + 1);
  REQUIRE(second != std::string_view::npos);
  bytes[second - 1] ^= std::byte{1};
  bytes.back() ^= std::byte{1};
  disk.put(folder + "pack-0", bytes);
  const auto damaged = damage_of(disk);
  CHECK(any_mentions(damaged, "(the filter database=0 key=\"small\")"));
  CHECK(any_mentions(damaged, "(the filter database=3 key=\"other\")"));
}

}  // namespace unreadable_test
