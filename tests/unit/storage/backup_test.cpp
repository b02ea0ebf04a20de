#include <sepal/storage/examine/backup.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/restore.hpp>

#include "support/catch.hpp"
#include "support/journal_fixture.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace backup_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

// A stopped server's directory "data", with two filters.
void make_data(SimulatedDisk& disk, std::uint64_t items = 100) {
  Filters filters;
  filters.add(0, "a", items);
  filters.add(3, "b", 50);
  const auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, {.own_file_bytes_min = 64});
  REQUIRE(directory);
  REQUIRE((*directory)->save(filters.snapshot(), {}));
}

Result<CopyReport> copy(SimulatedDisk& disk, bool may_link = false) {
  return copy_data(disk, {.from = "data", .into = "backup", .until = std::nullopt, .may_link = may_link}, {});
}

std::size_t filters_in(SimulatedDisk& disk, const Path& path) {
  const auto directory = DataDirectory::open(disk, path, 1, std::nullopt);
  REQUIRE(directory);
  const auto loaded = test::load(**directory);
  REQUIRE_FALSE(loaded.error);
  return loaded.filters.size();
}

}  // namespace

TEST_CASE("a copy of a stopped directory verifies, loads, and says what it has") {
  SimulatedDisk disk;
  make_data(disk);
  const auto report = copy(disk);
  REQUIRE(report);
  CHECK(report->generation == "generation-000000000001");
  CHECK(report->keys == 2);
  CHECK(report->items == 150);
  CHECK(report->saved_at == test::some_time);
  CHECK(report->linked_bytes == 0);
  CHECK(require_whole(disk, "backup", {}));
  CHECK(filters_in(disk, "backup") == 2);
}

TEST_CASE("linked files take no room, and are copied where the file system has no links") {
  SimulatedDisk disk;
  make_data(disk);
  const auto linked = copy(disk, true);
  REQUIRE(linked);
  CHECK(linked->linked_bytes == linked->bytes);
  REQUIRE(disk.remove_tree("backup"));
  disk.refuse_links();
  const auto copied = copy(disk, true);
  REQUIRE(copied);
  CHECK(copied->linked_bytes == 0);
  CHECK(copied->bytes == linked->bytes);
  CHECK(require_whole(disk, "backup", {}));
}

TEST_CASE("a copy survives the power cut after it") {
  SimulatedDisk disk;
  make_data(disk);
  REQUIRE(copy(disk));
  REQUIRE(disk.sync_directory(""));
  const auto crashed = disk.crashed_copy(Survival::synced, 1);
  CHECK(require_whole(*crashed, "backup", {}));
  CHECK(filters_in(*crashed, "backup") == 2);
}

TEST_CASE("an existing folder is never copied into") {
  SimulatedDisk disk;
  make_data(disk);
  REQUIRE(copy(disk, true));
  const auto before = disk.files();
  const auto again = copy(disk);
  REQUIRE_FALSE(again);
  CHECK(again.error().code == Errc::in_use);
  CHECK(disk.files() == before);
}

TEST_CASE("a failure at any step, or a full disk, is an error and leaves the source as it was") {
  SimulatedDisk counted;
  make_data(counted);
  counted.restart_count();
  REQUIRE(copy(counted));
  const std::uint64_t steps = counted.operation_count();
  REQUIRE(steps > 20);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    for (const bool full : {false, true}) {
      SimulatedDisk disk;
      make_data(disk);
      auto before = disk.files();
      std::string last;
      disk.restart_count();
      disk.set_observer([&](const char* operation, const Path& path) {
        if (disk.operation_count() <= step) last = operation + (" " + path.string());
      });
      full ? disk.fill_at(step) : disk.fail_at(step, Errc::io);
      const auto copied = copy(disk);
      if (full) CHECK((copied || copied.error().code == Errc::disk_full));
      INFO("step " << step << ": " << last);
      if (!full) CHECK_FALSE(copied);
      disk.free_space();
      disk.stop_failing();
      REQUIRE(disk.remove_tree("backup"));
      std::erase_if(before, [](const auto& file) { return file.first.starts_with("backup"); });
      CHECK(disk.files() == before);
    }
  }
}

TEST_CASE("a save that ends before all files are held makes the copy of a running server begin again") {
  SimulatedDisk disk;
  make_data(disk);
  bool saved = false;
  disk.set_observer([&](const char* operation, const Path& path) {
    if (saved || std::string(operation) != "open" || path.filename() != "MANIFEST") return;
    saved = true;
    make_data(disk, 200);
  });
  const CopyOrder order{.from = "data", .into = "backup", .until = 0};
  const auto copied = copy_data(disk, order, {});
  REQUIRE_FALSE(copied);
  CHECK(copied.error().code == Errc::in_use);
  REQUIRE(disk.remove_tree("backup"));
  const auto again = copy_data(disk, order, {});
  REQUIRE(again);
  CHECK(again->items > 200);
}

TEST_CASE("the copy of a running journal ends at the given position, and a lost part of it is noticed") {
  test::JournalFixture fixture;
  REQUIRE(DataDirectory::open(fixture.disk, "d", 1, std::nullopt));
  fixture.open();
  for (std::uint64_t i = 0; i < 400; ++i) {
    if (!fixture.add(i)) fixture.journal->work();
  }
  fixture.journal->work();
  const auto positions = fixture.journal->status();
  const std::uint64_t until = positions.synced_position;
  REQUIRE(until > test::small_segment_bytes);
  REQUIRE(fixture.add(1000));
  const auto copied = copy_data(fixture.disk, {.from = "d", .into = "backup", .until = until}, {});
  REQUIRE(copied);
  CHECK(copied->generation.empty());
  REQUIRE(require_whole(fixture.disk, "backup", {}));
  const auto operations = test::operations_of(test::journal_files(fixture.disk.files(), "backup"));
  REQUIRE_FALSE(operations.empty());
  CHECK(std::ranges::none_of(operations, [](const test::JournalOperation& operation) {
    return std::ranges::any_of(operation.fingerprints,
                               [](const Fingerprint& one) { return one.low == 1000; });
  }));
  const auto names = fixture.disk.list("backup");
  REQUIRE(names);
  const auto last = std::find_if(names->rbegin(), names->rend(),
                                 [](const std::string& name) { return name.starts_with("journal-"); });
  REQUIRE(last != names->rend());
  REQUIRE(fixture.disk.remove(Path("backup") / *last));
  CHECK_FALSE(require_whole(fixture.disk, "backup", {}));
}

TEST_CASE("only data is put aside, and the copy takes its place") {
  SimulatedDisk disk;
  make_data(disk);
  REQUIRE(copy(disk));
  make_data(disk, 300);
  disk.put("data/LOCK", {});
  disk.put("data/reserve-1", {});
  REQUIRE(*holds_data(disk, "data"));
  REQUIRE(disk.rename("backup", Path("data") / restore_folder));
  const auto aside = put_in_place(disk, "data");
  REQUIRE(aside);
  CHECK(*aside == Path("data/replaced-1"));
  CHECK(require_whole(disk, *aside, {}));
  CHECK(require_whole(disk, "data", {}));
  CHECK(disk.files().contains("data/LOCK"));
  CHECK(disk.files().contains("data/reserve-1"));
  for (const auto name : {restore_folder, restore_old, restore_new})
    CHECK_FALSE(*disk.exists(Path("data") / name));
}

namespace {

// The items that the filter "a" counts: of old data, of a first backup, and of a second one. They are fewer
// than were added (filter "a" answers "known" to some).
std::uint64_t counted(std::uint64_t added) {
  Filters filters;
  return filters.add(0, "a", added).item_count();
}
constexpr std::uint64_t old_added = 300;
constexpr std::uint64_t new_added = 100;
constexpr std::uint64_t newer_added = 200;
const std::uint64_t old_items = counted(old_added);
const std::uint64_t new_items = counted(new_added);
const std::uint64_t newer_items = counted(newer_added);

void put_copy(SimulatedDisk& disk, std::uint64_t items) {
  SimulatedDisk other;
  make_data(other, items);
  for (const auto& [path, contents] : other.files())
    if (!path.ends_with("LOCK"))
      disk.put(Path("data") / restore_folder / Path(path).lexically_relative("data"), contents);
}

// With a file that a start does not know, and one that both the old data and the copies have.
void prepare_restore(SimulatedDisk& disk, bool has_data) {
  if (has_data) {
    make_data(disk, old_added);
    disk.put("data/notes.txt", test::Bytes(7));
  }
  put_copy(disk, new_added);
  disk.restart_count();
}

// The items of "a" that a start finds; 0: none; nothing: the start refuses the directory, as verify does.
std::optional<std::uint64_t> items_of_start(SimulatedDisk& disk) {
  const auto verified = require_whole(disk, "data", {});
  const auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  if (!directory) {
    const std::string line = "type: sepal restore BACKUP --dir 'data' --force";
    CHECK(directory.error().detail.find(line) != std::string::npos);
    CHECK_FALSE(verified);
    if (!verified) CHECK(verified.error().detail.find(line) != std::string::npos);
    CHECK_FALSE(salvage_directory(disk, "data", "saved", 1, {}));
    CHECK_FALSE(copy_data(disk, {.from = "data", .into = "copied", .until = std::nullopt}, {}));
    REQUIRE(disk.remove_tree("copied"));
    return std::nullopt;
  }
  const auto loaded = test::load(**directory);
  REQUIRE_FALSE(loaded.error);
  const auto found = loaded.filters.find({0, "a"});
  return found == loaded.filters.end() ? 0 : found->second->item_count();
}

// Whether all of the old data is in one folder, replaced-1, 2, ...
bool old_is_aside(const SimulatedDisk& disk) {
  return std::ranges::any_of(disk.files(), [&](const auto& file) {
    if (!file.first.ends_with("/notes.txt") || !file.first.starts_with("data/replaced-")) return false;
    const std::string folder = Path(file.first).parent_path();
    const auto copy = disk.crashed_copy(Survival::all, 1);
    const auto directory = DataDirectory::open(*copy, folder, 1, std::nullopt);
    return directory && test::load(**directory).filters.at({0, "a"})->item_count() == old_items;
  });
}

}  // namespace

TEST_CASE("a restore that is cut off at any step leaves the old data, the new, or a refusal") {
  for (const bool has_data : {false, true}) {
    SimulatedDisk counted;
    prepare_restore(counted, has_data);
    REQUIRE(put_in_place(counted, "data"));
    std::size_t refused = 0;
    for (std::uint64_t step = 0; step <= counted.operation_count(); ++step) {
      for (const Survival survival : {Survival::synced, Survival::all}) {
        INFO(has_data << ", step " << step << ", survival " << static_cast<int>(survival));
        SimulatedDisk disk;
        prepare_restore(disk, has_data);
        disk.lose_power_after(step);
        static_cast<void>(put_in_place(disk, "data"));
        disk.crash(survival, step);
        const auto items = items_of_start(disk);
        if (items) CHECK((*items == new_items || *items == (has_data ? old_items : 0)));
        if (items && *items == new_items && has_data) CHECK(old_is_aside(disk));
        if (items) continue;
        ++refused;
        // The line of the message: another restore, which is cut off at the same step, and then another.
        REQUIRE(disk.remove_tree(Path("data") / restore_folder));
        put_copy(disk, newer_added);
        disk.restart_count();
        disk.lose_power_after(step);
        static_cast<void>(put_in_place(disk, "data"));
        disk.crash(survival, step);
        REQUIRE(disk.remove_tree(Path("data") / restore_folder));
        put_copy(disk, newer_added);
        REQUIRE(put_in_place(disk, "data"));
        CHECK(items_of_start(disk) == newer_items);
        if (has_data) CHECK(old_is_aside(disk));
      }
    }
    CHECK(refused > 4);
  }
}

TEST_CASE("a restore that fails at any step is refused or has changed nothing") {
  SimulatedDisk counted;
  prepare_restore(counted, true);
  REQUIRE(put_in_place(counted, "data"));
  for (std::uint64_t step = 1; step <= counted.operation_count(); ++step) {
    INFO(step);
    SimulatedDisk disk;
    prepare_restore(disk, true);
    disk.fail_at(step, Errc::io);
    CHECK_FALSE(put_in_place(disk, "data"));
    disk.stop_failing();
    const auto items = items_of_start(disk);
    if (items) CHECK((*items == old_items || *items == new_items));
  }
}

}  // namespace backup_test
