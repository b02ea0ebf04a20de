// Files of adopted filters: they exist before the record that names them, until a generation holds them.
#include <sepal/bloom/filter/image.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/adopted_files.hpp>
#include <sepal/value/image.hpp>

#include "support/catch.hpp"
#include "support/replayed.hpp"
#include "support/values.hpp"

namespace adopted_files_test {

using namespace sepal;
using namespace sepal::storage;
using keyspace::DatabaseKey;
using keyspace::ImageFile;
using namespace test;

namespace {

sepal::bloom::FilterPtr filter_with(std::uint64_t items, std::uint64_t capacity = 100'000) {
  test::Filters filters;
  return sepal::bloom::FilterPtr(&filters.add(0, "made", items, {.capacity = capacity, .seed = 5}));
}

struct Directory {
  SimulatedDisk disk;
  std::unique_ptr<AdoptedFiles> files;

  explicit Directory(std::vector<NamedFile> named = {}) {
    REQUIRE(disk.make_directory("data"));
    REQUIRE(disk.sync_directory(""));
    reopen(std::move(named));
  }
  void reopen(std::vector<NamedFile> named) {
    auto opened = AdoptedFiles::open(disk, "data", std::move(named));
    REQUIRE(opened);
    files = std::move(*opened);
  }
  [[nodiscard]] std::vector<std::string> names() { return *disk.list("data"); }
};

// Replays a journal on a disk with files of the test.
struct Recovered {
  test::Filters filters;
  Result<ReplayReport> report;

  explicit Recovered(Disk& disk) : report(run(disk)) {}
  Result<ReplayReport> run(Disk& disk) {
    Gate gate(1);
    return replay_journal(disk, "data", filters.keyspace, gate, {}, {});
  }
  [[nodiscard]] const bloom::Filter* find(DatabaseKey key = some_key) const {
    return sepal::test::filter_at(filters.keyspace, key);
  }
};

}  // namespace

TEST_CASE("a written file survives a power cut, and restores the filter") {
  Directory directory;
  const auto filter = filter_with(50);
  const auto written = directory.files->write(filter, {});
  REQUIRE(written);
  const auto disk = directory.disk.crashed_copy(Survival::synced, 1);
  const auto read = read_adopted(*disk, "data", *written, test::roomy, {});
  REQUIRE(read);
  CHECK(test::same(*test::held_filter(*read), *filter));
}

TEST_CASE("a replaced or missing file is damage") {
  Directory directory;
  const auto first = directory.files->write(filter_with(50), {});
  const auto second = directory.files->write(filter_with(51), {});
  REQUIRE((first && second));
  const auto error = [&](const ImageFile& file) {
    const auto read = read_adopted(directory.disk, "data", file, test::roomy, {});
    REQUIRE_FALSE(read);
    CHECK(read.error().code == Errc::damaged);
    return read.error().detail;
  };
  CHECK(error({.number = first->number, .seal = second->seal}).find("not the file") != std::string::npos);
  CHECK(error({.number = 77, .seal = 1}).find("is not there") != std::string::npos);
  REQUIRE(directory.disk.rename("data/adopted-000000000001", "data/adopted-000000000002"));
  CHECK(error(*second).find("not the file") != std::string::npos);
}

TEST_CASE("a file that could not be written leaves nothing behind, whichever operation fails") {
  const auto filter = filter_with(50);
  Directory trial;
  const std::uint64_t before = trial.disk.operation_count();
  REQUIRE(trial.files->write(filter, {}));
  const std::uint64_t operations = trial.disk.operation_count() - before;
  REQUIRE(operations >= 4);
  for (std::uint64_t operation = 1; operation <= operations; ++operation) {
    INFO("operation " << operation << " of " << operations);
    Directory directory;
    directory.disk.fail_at(directory.disk.operation_count() + operation, Errc::io);
    CHECK_FALSE(directory.files->write(filter, {}));
    CHECK(directory.names().empty());
    const auto again = directory.files->write(filter, {});
    REQUIRE(again);
    CHECK(read_adopted(directory.disk, "data", *again, test::roomy, {}));
  }
}

TEST_CASE("the sentence of a failed write names the directory and the reason, and no file that is gone") {
  const auto filter = filter_with(50);
  for (std::uint64_t operation = 1; operation <= 4; ++operation) {
    INFO("operation " << operation);
    Directory directory;
    directory.disk.fail_at(directory.disk.operation_count() + operation, Errc::disk_full);
    const auto written = directory.files->write(filter, {});
    REQUIRE_FALSE(written);
    CHECK(written.error().code == Errc::disk_full);
    CHECK(written.error().detail == "cannot write into data: it fails, as the test asked");
  }
}

TEST_CASE("a cancelled write leaves nothing behind") {
  Directory directory;
  const auto written = directory.files->write(filter_with(50), [](const Progress&) { return false; });
  REQUIRE_FALSE(written);
  CHECK(directory.names().empty());
}

TEST_CASE("a file is removed when a generation holds its filter, and not before") {
  Directory directory;
  const auto first = directory.files->write(filter_with(1), {});
  const auto second = directory.files->write(filter_with(2), {});
  REQUIRE((first && second));
  directory.files->named({.number = first->number, .position = 100});
  directory.files->named({.number = second->number, .position = 200});
  directory.files->generation_saved(99);
  CHECK(directory.names().size() == 2);
  directory.files->generation_saved(100);
  CHECK(directory.names() == std::vector<std::string>{"adopted-000000000002"});
  CHECK_FALSE(directory.files->is_named(first->number));
  CHECK(directory.files->is_named(second->number));
  directory.files->generation_saved(1000);
  CHECK(directory.names().empty());
}

TEST_CASE("a start removes files that no record names, and continues above the numbers of the others") {
  Directory directory;
  for (int i = 0; i < 3; ++i) REQUIRE(directory.files->write(filter_with(1), {}));
  directory.disk.put("data/adopted-000000000009.tmp", test::Bytes(3));
  directory.disk.put(Path("data") / aside_name(77), test::Bytes(3));
  directory.disk.put("data/adopted-9", test::Bytes(3));
  directory.disk.put("data/adopted-999999999999", test::Bytes(3));
  directory.reopen({{.number = 2, .position = 50}});
  CHECK(directory.names() == std::vector<std::string>{"adopted-000000000002", "adopted-9"});
  const auto next = directory.files->write(filter_with(1), {});
  REQUIRE(next);
  CHECK(next->number == 3);
  directory.files->generation_saved(50);
  CHECK(directory.names() == std::vector<std::string>{"adopted-000000000003", "adopted-9"});
}

TEST_CASE("after the highest number of an adopted file the numbers begin anew") {
  Directory directory;
  directory.reopen({{.number = 1, .position = 50}, {.number = format::adopted_number_max, .position = 60}});
  const auto next = directory.files->write(filter_with(1), {});
  REQUIRE(next);
  CHECK(next->number == 2);
}

TEST_CASE("replay puts adopted filters under their keys, and applies later changes to them") {
  Directory directory;
  const auto large = filter_with(50);
  const auto small = filter_with(3, 10);
  const auto file = directory.files->write(large, {});
  REQUIRE(file);
  test::JournalFiles journal;
  test::create(journal);
  journal.adopted(some_key, {.file = *file, .deadline = 77});
  const Fingerprint fingerprint = fingerprint_of("behind", 5);
  journal.added(some_key, {&fingerprint, 1});
  journal.end_frame();
  const std::uint64_t named_until = journal.position();
  const auto image = value::image_of(*small);
  journal.adopted({.database = 1, .key = "small"}, {.image = image});
  journal.removed({.database = 1, .key = "small"});
  journal.adopted({.database = 1, .key = "small"}, {.image = image, .deadline = 5});
  journal.end_frame();
  journal.put(directory.disk, "data");

  Recovered recovered(directory.disk);
  REQUIRE(recovered.report);
  REQUIRE(recovered.find() != nullptr);
  CHECK(recovered.find()->item_count() == 51);
  CHECK(test::contains(*recovered.find(), "made/7"));
  CHECK(test::contains(*recovered.find(), "behind"));
  CHECK(recovered.filters.keyspace.deadline(some_key) == 77);
  CHECK(test::same(*recovered.find({.database = 1, .key = "small"}), *small));
  CHECK(recovered.filters.keyspace.deadline({.database = 1, .key = "small"}) == 5);
  REQUIRE(recovered.report->named.size() == 1);
  CHECK(recovered.report->named[0].number == file->number);
  CHECK(recovered.report->named[0].position == named_until);
}

TEST_CASE("a memory limit that was lowered later does not stop the replay of a recorded filter") {
  test::JournalFiles journal;
  journal.adopted(some_key, {.image = value::image_of(*filter_with(3, 10))});
  journal.end_frame();
  SimulatedDisk disk;
  journal.put(disk, "data");
  test::Filters filters;
  filters.keyspace.set_memory_max(1);
  Gate gate(1);
  REQUIRE(replay_journal(disk, "data", filters.keyspace, gate, {}, {}));
  CHECK(sepal::test::filter_at(filters.keyspace, some_key) != nullptr);
}

TEST_CASE("a record whose file is missing or damaged stops the start, and salvage goes on without it") {
  const bool missing = GENERATE(true, false);
  Directory directory;
  const auto file = directory.files->write(filter_with(50), {});
  REQUIRE(file);
  test::JournalFiles journal;
  test::create(journal, {.database = 2, .key = "kept"});
  journal.adopted(some_key, {.file = *file});
  const Fingerprint fingerprint = fingerprint_of("behind", 5);
  journal.added(some_key, {&fingerprint, 1});
  journal.end_frame();
  journal.put(directory.disk, "data");
  if (missing) {
    REQUIRE(directory.disk.remove("data/adopted-000000000001"));
  } else {
    test::Bytes bytes = directory.disk.files()["data/adopted-000000000001"];
    bytes.back() ^= std::byte{1};
    directory.disk.put("data/adopted-000000000001", std::move(bytes));
  }
  Recovered recovered(directory.disk);
  REQUIRE_FALSE(recovered.report);
  CHECK(recovered.report.error().code == Errc::damaged);
  CHECK(test::mentions(recovered.report.error(), "adopted-000000000001"));

  const auto findings = verify_directory(directory.disk, "data", {});
  REQUIRE(findings);
  std::size_t damaged = 0;
  for (const Finding& finding : *findings) damaged += finding.grade == Finding::Grade::damaged ? 1 : 0;
  CHECK(damaged == 1);

  const auto salvaged = salvage_directory(directory.disk, "data", "saved", 1, {});
  REQUIRE(salvaged);
  CHECK(count_of(salvaged->values, value::Kind::bloom) == 1);
  CHECK(salvaged->lost.size() == 2);
}

TEST_CASE("verify names files that are not needed any more") {
  Directory directory;
  const auto file = directory.files->write(filter_with(50), {});
  REQUIRE((file && directory.files->write(filter_with(1), {})));
  test::JournalFiles journal;
  journal.adopted(some_key, {.file = *file});
  journal.end_frame();
  journal.put(directory.disk, "data");
  const auto findings = verify_directory(directory.disk, "data", {});
  REQUIRE(findings);
  std::vector<std::string> harmless;
  for (const Finding& finding : *findings) {
    CHECK(finding.grade != Finding::Grade::damaged);
    if (finding.text.find("adopted-") != std::string::npos) harmless.push_back(finding.text);
  }
  REQUIRE(harmless.size() == 1);
  CHECK(harmless[0].find("adopted-000000000002") != std::string::npos);
  std::vector<std::string> told;
  const auto inspected = inspect_file(directory.disk, "data/" + journal.newest_name(),
                                      [&](const Fact& fact) { told.push_back(fact.line()); });
  REQUIRE(inspected);
  CHECK(told[2].find("adopted database=3 key=\"key\" file=\"adopted-000000000001\"") == 0);
}

}  // namespace adopted_files_test
