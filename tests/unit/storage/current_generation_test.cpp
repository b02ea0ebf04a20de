// A data directory without a CURRENT: nothing was saved yet, the first save crashed, or CURRENT was lost.
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include "support/catch.hpp"
#include "support/generation_files.hpp"
#include "support/journal_files.hpp"
#include "support/replayed.hpp"
#include "support/storage_fixture.hpp"

namespace current_generation_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

const std::string generation = "generation-000000000001";
const std::string folder = "data/" + generation + "/";

test::Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

// A generation with one filter, whose CURRENT is lost.
FileMap without_current() {
  SimulatedDisk disk;
  test::Filters filters;
  filters.add(0, "key", 5);
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
  FileMap files = disk.files();
  REQUIRE(files.erase("data/CURRENT") == 1);
  REQUIRE_FALSE(files.contains("data/FIRST"));
  return files;
}

// Writes FIRST, which exists while the first save runs.
void name_in_first(FileMap& files, const std::string& name) {
  files["data/FIRST"] = bytes_of(format::sealed_line("FIRST", name));
}

std::unique_ptr<SimulatedDisk> disk_of(const FileMap& files) {
  auto disk = std::make_unique<SimulatedDisk>();
  for (const auto& [path, contents] : files) disk->put(path, contents);
  return disk;
}

Error refused(const FileMap& files) {
  const auto disk = disk_of(files);
  const auto outcome = test::open_and_load(*disk, "data");
  REQUIRE(outcome.error);
  CHECK(disk->files() == files);  // nothing was removed
  const auto findings = verify_directory(*disk, "data", {});
  REQUIRE(findings);
  CHECK(std::ranges::any_of(*findings, [&](const Finding& finding) {
    return finding.grade == Finding::Grade::damaged && finding.text == outcome.error->detail;
  }));
  return *outcome.error;
}

bool any_damage(SimulatedDisk& disk) {
  const auto findings = verify_directory(disk, "data", {});
  REQUIRE(findings);
  return std::ranges::any_of(*findings,
                             [](const Finding& finding) { return finding.grade == Finding::Grade::damaged; });
}

}  // namespace

TEST_CASE("a start without CURRENT is refused if a generation was saved, and the error says how to name it") {
  FileMap files = without_current();
  const Error error = refused(files);
  CHECK(error.code == Errc::damaged);
  CHECK(mentions(error, "data/CURRENT is not there, but " + generation + " has been saved"));
  CHECK(mentions(error, "sepal salvage"));
  const std::size_t from = error.detail.find("echo '") + 6;
  const std::size_t to = error.detail.find("' > 'data/CURRENT'");
  REQUIRE(to < error.detail.size());
  // Writes what the command of the message would write.
  files["data/CURRENT"] = bytes_of(error.detail.substr(from, to - from) + "\n");
  const auto outcome = test::open_and_load(*disk_of(files), "data");
  REQUIRE_FALSE(outcome.error);
  CHECK(outcome.report.name == generation);
  CHECK(outcome.filters.size() == 1);
}

TEST_CASE("the error names the newest whole generation") {
  FileMap files = without_current();
  // A later save has begun.
  files["data/generation-000000000002/pack-0"] = {};
  CHECK(mentions(refused(files), "make " + generation + " current again"));
  files["data/generation-000000000003/MANIFEST"] = test::Bytes(10);
  CHECK(mentions(refused(files), "make " + generation + " current again"));
  files[folder + "MANIFEST"].back() ^= std::byte{1};
  const Error error = refused(files);
  CHECK_FALSE(mentions(error, "current again"));
  CHECK(mentions(error, "sepal salvage"));
}

TEST_CASE("a first save that crashed before it wrote CURRENT is used") {
  FileMap files = without_current();
  name_in_first(files, generation);
  const auto disk = disk_of(files);
  CHECK_FALSE(any_damage(*disk));
  const auto outcome = test::open_and_load(*disk, "data");
  REQUIRE_FALSE(outcome.error);
  CHECK(outcome.report.name == generation);
  CHECK(disk->files().contains("data/CURRENT"));
  CHECK_FALSE(disk->files().contains("data/FIRST"));
}

TEST_CASE("a first save that crashed before its MANIFEST was whole is ignored") {
  FileMap files = without_current();
  name_in_first(files, generation);
  files[folder + "MANIFEST"].pop_back();
  const auto disk = disk_of(files);
  CHECK_FALSE(any_damage(*disk));
  const auto outcome = test::open_and_load(*disk, "data");
  REQUIRE_FALSE(outcome.error);
  CHECK(outcome.report.name.empty());
  CHECK_FALSE(disk->files().contains(folder + "MANIFEST"));
}

TEST_CASE("with a FIRST that is damaged or names another generation, the start is refused") {
  FileMap files = without_current();
  name_in_first(files, "generation-000000000002");
  refused(files);
  name_in_first(files, generation);
  files["data/FIRST"].back() = std::byte{' '};
  refused(files);
}

TEST_CASE(
    "salvage takes the newest whole generation without CURRENT, and the journal after a crashed first save") {
  test::Sample sample(3);
  FileMap files = without_current();
  files["data/generation-000000000002/pack-0"] = {};
  const auto lost = disk_of(files);
  const auto of_generation = salvage_directory(*lost, "data", "saved", 1, {});
  REQUIRE(of_generation);
  CHECK(count_of(of_generation->values, value::Kind::bloom) == 1);
  CHECK(of_generation->items == 5);

  files.erase(folder + "MANIFEST");
  const auto crashed = disk_of(files);
  sample.journal.put(*crashed, "data");
  const auto of_journal = salvage_directory(*crashed, "data", "saved", 1, {});
  REQUIRE(of_journal);
  CHECK(of_journal->items == 3);
  CHECK(of_journal->lost.empty());
}

}  // namespace current_generation_test
