#include <sepal/storage/format/snapshot_format.hpp>
#include <sepal/storage/generation/data_directory.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace data_directory_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

std::unique_ptr<DataDirectory> opened(Disk& disk, const Path& path = "data",
                                      const DataDirectoryOptions& options = {}) {
  auto directory = DataDirectory::open(disk, path, 1, std::nullopt, options);
  REQUIRE(directory);
  return std::move(*directory);
}

std::string saved(DataDirectory& directory, const Filters& filters) {
  const auto report = directory.save(filters.snapshot(), {});
  REQUIRE(report);
  return report->name;
}

// Checks that a load gives the saved keyspace, and that the reports agree.
void check_round_trip(Disk& disk, const Path& path, const Filters& filters,
                      const DataDirectoryOptions& options = {}) {
  const auto directory = opened(disk, path, options);
  const auto report = directory->save(filters.snapshot(), {});
  REQUIRE(report);
  const auto loaded = test::load(*directory);
  REQUIRE_FALSE(loaded.error);
  CHECK(test::same(filters.keyspace.cut(), loaded.filters));
  CHECK(loaded.report.name == report->name);
  CHECK(loaded.report.value_count == filters.keyspace.total_size());
  CHECK(loaded.report.bytes == report->bytes);
}

void fill_with_all_kinds(Filters& filters) {
  filters.add(0, "plain", 50);
  filters.add(0, "empty", 0);
  filters.add(0, "", 3);
  filters.add(0, std::string("binary\0\r\n\xff", 10), 3);
  filters.add(0, std::string(keyspace::key_bytes_max, 'k'), 3);
  filters.add(0, "grown", 2000, {.error_rate = 0.001, .capacity = 10, .expansion = 2, .seed = 9});
  filters.add(0, "fixed", 100, {.error_rate = 1e-6, .capacity = 100, .expansion = 0, .seed = 10});
  filters.add(0, "one item", 1, {.error_rate = 0.25, .capacity = 1, .expansion = 1, .seed = 11});
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    filters.add(database, "in each", database);
}

}  // namespace

TEST_CASE(
    "the notes of a data directory are read beside the process that has it, until the next one opens it") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  CHECK(read_notes(*disk, folder.path())->empty());
  {
    const auto data = DataDirectory::open(*disk, folder.path(), 1, std::nullopt);
    REQUIRE(data);
    CHECK(read_notes(*disk, folder.path())->empty());
    REQUIRE((*data)->note("a longer line than the next\nand one more\n"));
    REQUIRE((*data)->note("one\ntwo words\n"));
    CHECK(*read_notes(*disk, folder.path()) == std::vector<std::string>{"one", "two words"});
    const auto second = DataDirectory::open(*disk, folder.path(), 1, std::nullopt);
    REQUIRE(!second);
    CHECK(second.error().detail.find("in use by process " + std::to_string(::getpid()) + ",") !=
          std::string::npos);
  }
  CHECK(read_notes(*disk, folder.path())->size() == 2);
  REQUIRE(DataDirectory::open(*disk, folder.path(), 1, std::nullopt));
  CHECK(read_notes(*disk, folder.path())->empty());
}

TEST_CASE("a lock file without whole lines, or too long to be one, has no notes") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  const auto notes_of = [&](const std::string& text) {
    REQUIRE(replace_file(*disk, folder.path() / "LOCK", std::as_bytes(std::span(text))));
    return *read_notes(*disk, folder.path());
  };
  CHECK(notes_of("").empty());
  CHECK(notes_of("12").empty());
  CHECK(notes_of("12\n").empty());
  CHECK(notes_of("12\ntcp 127.0").empty());
  CHECK(notes_of("12\na\nb").size() == 1);
  CHECK(notes_of("12\n" + std::string(65'532, '\n')).size() == 65'532);
  CHECK(notes_of("12\n" + std::string(65'533, '\n')).empty());
}

TEST_CASE("a load restores every saved filter: all kinds, keys and databases") {
  SimulatedDisk disk;
  Filters filters;
  fill_with_all_kinds(filters);
  check_round_trip(disk, "data", filters);
}

TEST_CASE("filters with a file of their own and filters in the pack are restored alike") {
  SimulatedDisk disk;
  Filters filters;
  fill_with_all_kinds(filters);
  check_round_trip(disk, "data", filters, {.own_file_bytes_min = 256});
  const auto files = disk.files();
  CHECK(files.contains("data/generation-000000000001/pack-0"));
  CHECK(files.contains("data/generation-000000000001/filter-1-1"));
  check_round_trip(disk, "all-own", filters, {.own_file_bytes_min = 0});
  CHECK_FALSE(disk.files().contains("all-own/generation-000000000001/pack-0"));
}

TEST_CASE("bitmaps of several chunks, cut in the middle of layers, are restored") {
  SimulatedDisk disk;
  Filters filters;
  filters.add(0, "large", 100, {.error_rate = 1e-6, .capacity = 400'000, .expansion = 2, .seed = 3});
  filters.add(0, "layers", 300'000, {.error_rate = 0.01, .capacity = 100'000, .expansion = 2, .seed = 3});
  check_round_trip(disk, "data", filters);
  check_round_trip(disk, "own", filters, {.own_file_bytes_min = 1});
}

TEST_CASE("an empty keyspace is saved and loaded as an empty keyspace") {
  SimulatedDisk disk;
  check_round_trip(disk, "data", Filters());
}

TEST_CASE("a new directory has nothing to load") {
  SimulatedDisk disk;
  const auto loaded = test::load(*opened(disk));
  CHECK_FALSE(loaded.error);
  CHECK(loaded.report.name.empty());
  CHECK(loaded.filters.empty());
}

TEST_CASE("the real disk keeps filters, in a directory whose parents sepald creates") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  Filters filters;
  fill_with_all_kinds(filters);
  check_round_trip(*disk, folder.path() / "a" / "b" / "data", filters, {.own_file_bytes_min = 256});
}

namespace {

// Large enough that several threads load it. Its two layers share a chunk.
void add_giant(Filters& filters) {
  filters.add(0, "giant", 22'000, {.error_rate = 0.01, .capacity = 20'000, .expansion = 400, .seed = 3});
}

}  // namespace

TEST_CASE("a filter that several threads load is restored exactly, and so are its neighbours") {
  SimulatedDisk disk;
  Filters filters;
  add_giant(filters);
  filters.add(0, "before", 10);
  filters.add(3, "behind", 10);
  check_round_trip(disk, "own", filters);
  check_round_trip(disk, "packed", filters, {.own_file_bytes_min = std::uint64_t{1} << 40});
}

TEST_CASE("threads that load one filter together report damage and errors of the disk") {
  SimulatedDisk disk;
  Filters filters;
  add_giant(filters);
  const auto directory = opened(disk);
  saved(*directory, filters);
  const std::string path = "data/generation-000000000001/filter-1-0";
  auto contents = disk.files()[path];
  REQUIRE(contents.size() > 8 * format::chunk_bytes);
  const std::size_t damaged_at = 5 * format::chunk_bytes;
  contents[damaged_at] ^= std::byte{1};
  disk.put(path, contents);
  const auto damaged = test::load(*directory);
  REQUIRE(damaged.error);
  CHECK(damaged.error->code == Errc::damaged);
  CHECK(damaged.error->detail.find("the checksum of a bitmap does not match") != std::string::npos);

  disk.restart_count();
  disk.set_observer([&](const char* operation, const Path&) {
    if (std::string_view(operation) == "size") disk.fail_at(disk.operation_count() + 6, Errc::io);
  });
  const auto failed = test::load(*directory);
  REQUIRE(failed.error);
  CHECK(failed.error->code == Errc::io);
}

TEST_CASE("a generation replaces the one before, whose folder is removed") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  Filters filters;
  filters.add(0, "first", 10);
  CHECK(saved(*directory, filters) == "generation-000000000001");
  CHECK(filters.keyspace.remove({.database = 0, .key = "first"}));
  filters.add(0, "second", 10);
  CHECK(saved(*directory, filters) == "generation-000000000002");
  CHECK(*disk.list("data") == std::vector<std::string>{"CURRENT", "SEED", "generation-000000000002"});
  CHECK(test::same(filters.keyspace.cut(), test::load(*directory).filters));
}

namespace {

constexpr bloom::FilterOptions big{.error_rate = 0.01, .capacity = 5000, .seed = 1};
constexpr DataDirectoryOptions own_files{.own_file_bytes_min = 5000};

// The bytes that the next save of these filters links.
std::uint64_t linked_bytes(DataDirectory& directory, const Filters& filters,
                           Linking linking = Linking::unchanged) {
  const auto report = directory.save(filters.snapshot(), {}, linking);
  REQUIRE(report);
  return report->linked_bytes;
}

}  // namespace

TEST_CASE("a save writes only the one changed filter of a hundred big ones") {
  SimulatedDisk disk;
  Filters filters;
  for (int i = 0; i < 100; ++i) filters.add(0, "key " + std::to_string(i), 10, big);
  const auto directory = opened(disk, "data", own_files);
  const auto first = directory->save(filters.snapshot(), {});
  REQUIRE(first);
  CHECK(first->linked_bytes == 0);
  static_cast<void>(sepal::writers::add_alone(
      filters.keyspace, 0, *sepal::test::filter_at(filters.keyspace, {.database = 0, .key = "key 7"}),
      "one more"));

  std::vector<std::string> created;
  disk.set_observer([&](const char* operation, const Path& path) {
    if (std::string_view(operation) == "create") created.push_back(path.filename().string());
  });
  const auto second = directory->save(filters.snapshot(), {});
  REQUIRE(second);
  REQUIRE(created.size() == 3);
  CHECK(is_aside_name(created.back()));
  created.pop_back();
  CHECK(created == std::vector<std::string>{"filter-2-0", "MANIFEST"});
  // The manifest names filter-2-0 in place of one of filter-1-0 to filter-1-99.
  CHECK((second->bytes == first->bytes || second->bytes + 1 == first->bytes));
  CHECK(second->linked_bytes > second->bytes * 98 / 100);
  CHECK(test::same(filters.keyspace.cut(), test::load(*directory).filters));
}

TEST_CASE("a file is linked as long as neither the key nor the filter under it changes") {
  SimulatedDisk disk;
  Filters filters;
  filters.add(0, "key", 10, big);
  const auto directory = opened(disk, "data", own_files);
  REQUIRE(linked_bytes(*directory, filters) == 0);
  CHECK(linked_bytes(*directory, filters) > 0);
  CHECK(linked_bytes(*directory, filters) > 0);
  CHECK(linked_bytes(*directory, filters, Linking::none) == 0);
  CHECK(linked_bytes(*directory, filters) > 0);

  REQUIRE(filters.keyspace.rename(0, "key", "other"));
  CHECK(linked_bytes(*directory, filters) == 0);
  REQUIRE(filters.keyspace.rename(0, "other", "key"));
  CHECK(linked_bytes(*directory, filters) == 0);

  // The record has the key's deadline as well.
  REQUIRE(filters.keyspace.set_deadline({.database = 0, .key = "key"}, 1000));
  CHECK(linked_bytes(*directory, filters) == 0);
  CHECK(linked_bytes(*directory, filters) > 0);
  REQUIRE(filters.keyspace.set_deadline({.database = 0, .key = "key"}, keyspace::no_deadline));
  CHECK(linked_bytes(*directory, filters) == 0);

  // Another filter of the same key, shape and count.
  CHECK(filters.keyspace.remove({.database = 0, .key = "key"}));
  filters.add(0, "key", 10, big);
  CHECK(linked_bytes(*directory, filters) == 0);

  filters.add(0, "key 2", 6000, big);
  CHECK(linked_bytes(*directory, filters) > 0);
  static_cast<void>(sepal::writers::add_alone(
      filters.keyspace, 0, *sepal::test::filter_at(filters.keyspace, {.database = 0, .key = "key 2"}),
      "one more"));
  const std::uint64_t with_one_changed = linked_bytes(*directory, filters);
  CHECK(with_one_changed > 0);
  CHECK(linked_bytes(*directory, filters) > with_one_changed);
  CHECK(test::same(filters.keyspace.cut(), test::load(*directory).filters));
}

TEST_CASE("the file of a loaded filter is linked if the filter did not change") {
  SimulatedDisk disk;
  Filters filters;
  filters.add(0, "same", 10, big);
  filters.add(0, "changed", 10, big);
  filters.add(0, "small", 10);
  REQUIRE(opened(disk, "data", own_files)->save(filters.snapshot(), {}));

  const auto directory = opened(disk, "data", own_files);
  Filters loaded;
  const auto sink = [&](std::span<LoadedValue> handed_over) {
    for (LoadedValue& each : handed_over)
      REQUIRE(loaded.keyspace.put({.database = each.database, .key = each.key}, std::move(each.value)));
    return Result<void>();
  };
  REQUIRE(directory->load(test::roomy, sink, {}));
  static_cast<void>(sepal::writers::add_alone(
      loaded.keyspace, 0, *sepal::test::filter_at(loaded.keyspace, {.database = 0, .key = "changed"}),
      "one more"));
  const auto report = directory->save(loaded.snapshot(), {});
  REQUIRE(report);
  CHECK(report->linked_bytes > 5000);
  CHECK(report->linked_bytes < 2 * 5000);
  CHECK(test::same(loaded.keyspace.cut(), test::load(*directory).filters));
}

TEST_CASE("on a file system without links, everything is written") {
  SimulatedDisk disk;
  disk.refuse_links();
  Filters filters;
  filters.add(0, "key", 10, big);
  const auto directory = opened(disk, "data", own_files);
  CHECK(linked_bytes(*directory, filters) == 0);
  CHECK(linked_bytes(*directory, filters) == 0);
}

TEST_CASE("a linked file keeps the journal position at which it was written") {
  SimulatedDisk disk;
  Filters filters;
  filters.add(0, "key", 10, big);
  const auto directory = opened(disk, "data", own_files);
  REQUIRE(directory->save(storage::snapshot_of(filters.keyspace, test::some_time, 100), {}));
  REQUIRE(directory->save(storage::snapshot_of(filters.keyspace, test::some_time, 200), {}));
  const auto sink = [](std::span<LoadedValue> handed_over) {
    CHECK(handed_over.front().journal_position == 100);
    return Result<void>();
  };
  const auto report = directory->load(test::roomy, sink, {});
  REQUIRE(report);
  CHECK(report->journal_position == 200);
}

TEST_CASE("adds and growths after the cut do not disturb the save") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  Filters filters;
  bloom::Filter& filter = filters.add(0, "key", 10, {.error_rate = 0.01, .capacity = 10, .seed = 1});
  const Snapshot snapshot = filters.snapshot();
  for (int i = 0; i < 1000; ++i)
    static_cast<void>(sepal::writers::add_alone(filters.keyspace, 0, filter, "later/" + std::to_string(i)));
  CHECK(filters.keyspace.remove({.database = 0, .key = "key"}));

  REQUIRE(directory->save(snapshot, {}));
  const auto loaded = test::load(*directory);
  REQUIRE(loaded.filters.size() == 1);
  const bloom::Filter& found = *loaded.filters.begin()->second;
  CHECK(found.layer_count() == 1);
  CHECK(found.item_count() == 10);
  for (int i = 0; i < 10; ++i) CHECK(contains(found, "key/" + std::to_string(i)));
}

TEST_CASE("only one server at a time can use a directory") {
  const test::TemporaryFolder folder;
  const auto disk = make_posix_disk();
  auto first = opened(*disk, folder.path());
  const auto second = DataDirectory::open(*disk, folder.path(), 1, std::nullopt);
  REQUIRE(!second);
  CHECK(second.error().code == Errc::in_use);
  CHECK(second.error().detail.find("process " + std::to_string(::getpid())) != std::string::npos);
  first.reset();
  CHECK(DataDirectory::open(*disk, folder.path(), 1, std::nullopt));
}

TEST_CASE("the seed is drawn once, and a fixed seed does not replace it") {
  SimulatedDisk disk;
  const auto seed = [&](std::uint64_t drawn, std::optional<std::uint64_t> fixed) {
    const auto directory = DataDirectory::open(disk, "data", drawn, fixed);
    REQUIRE(directory);
    return (*directory)->seed();
  };
  CHECK(seed(0xfedcba9876543210, std::nullopt) == 0xfedcba9876543210);
  CHECK(seed(5, std::nullopt) == 0xfedcba9876543210);
  CHECK(seed(6, 42) == 42);
  CHECK(seed(7, std::nullopt) == 0xfedcba9876543210);
}

TEST_CASE("a save into a directory that was made again keeps the seed") {
  test::SimulatedDisk disk;
  Filters filters;
  filters.add(0, "key", 10);
  {
    const auto directory = opened(disk);
    REQUIRE(disk.remove("data/SEED"));
    saved(*directory, filters);
  }
  const auto directory = DataDirectory::open(disk, "data", 2, std::nullopt);
  REQUIRE(directory);
  CHECK((*directory)->seed() == 1);
}

TEST_CASE("a directory that cannot be written to is an error that says so") {
  for (std::uint64_t step = 1; step < 100; ++step) {
    SimulatedDisk disk;
    disk.fail_at(step, Errc::read_only);
    const auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
    if (step > disk.operation_count()) break;
    if (directory) continue;  // the later operations remove remains, which may stay
    CHECK(directory.error().code == Errc::read_only);
    CHECK(directory.error().detail.starts_with("cannot "));
  }
}

TEST_CASE("remains of a crash are removed at the next start, and nothing else is") {
  SimulatedDisk disk;
  Filters filters;
  filters.add(0, "key", 10);
  saved(*opened(disk), filters);
  disk.put("data/generation-000000000002/pack-0", {});
  disk.put("data/CURRENT.tmp", {});
  disk.put("data/notes.txt", {});
  disk.put("data/generation-x/file", {});
  CHECK(test::same(filters.keyspace.cut(), test::load(*opened(disk)).filters));
  CHECK(*disk.list("data") ==
        std::vector<std::string>{"CURRENT", "SEED", "generation-000000000001", "generation-x", "notes.txt"});
}

TEST_CASE("generations without a CURRENT are kept until a save has made one") {
  SimulatedDisk disk;
  disk.put("data/generation-000000000041/pack-0", {});
  const auto directory = opened(disk);
  CHECK(test::load(*directory).report.name.empty());
  CHECK(disk.files().contains("data/generation-000000000041/pack-0"));
  CHECK(saved(*directory, Filters()) == "generation-000000000042");
  CHECK_FALSE(disk.files().contains("data/generation-000000000041/pack-0"));
}

TEST_CASE("a folder with the highest number of a generation blocks no save") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  disk.put("data/generation-000000000001/pack-0", {});
  disk.put("data/generation-999999999999/pack-0", {});
  CHECK(saved(*directory, Filters()) == "generation-000000000002");
  disk.put("data/generation-000000000003/pack-0", {});
  disk.put("data/generation-999999999999/pack-0", {});
  CHECK(saved(*directory, Filters()) == "generation-000000000004");
  CHECK(*disk.list("data") == std::vector<std::string>{"CURRENT", "SEED", "generation-000000000004"});
}

TEST_CASE("a save after the generation of the highest number is refused") {
  SimulatedDisk disk;
  disk.put("data/generation-999999999998/pack-0", {});
  CHECK(saved(*opened(disk), Filters()) == "generation-999999999999");
  const auto report = opened(disk)->save(Filters().snapshot(), {});
  REQUIRE(!report);
  CHECK(report.error().detail.find("generation-999999999999") != std::string::npos);
}

TEST_CASE("a cancelled save leaves the old generation and no remains") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  Filters filters;
  filters.add(0, "key", 10);
  saved(*directory, filters);
  Filters more;
  more.add(0, "large", 10, {.error_rate = 1e-6, .capacity = 2'000'000, .seed = 3});
  int calls = 0;
  const auto report = directory->save(more.snapshot(), [&](const Progress& progress) {
    CHECK(progress.bytes_done <= progress.bytes_total);
    return ++calls < 2;
  });
  REQUIRE(!report);
  CHECK(report.error().code == Errc::io);
  CHECK(calls == 2);
  CHECK(*disk.list("data") == std::vector<std::string>{"CURRENT", "SEED", "generation-000000000001"});
  CHECK(test::same(filters.keyspace.cut(), test::load(*directory).filters));
}

TEST_CASE("what a failed save could not remove is gone before the next save needs its room") {
  for (const bool is_first : {true, false}) {
    CAPTURE(is_first);
    SimulatedDisk disk;
    const auto directory = opened(disk, "data", {.own_file_bytes_min = 1});
    Filters filters;
    filters.add(0, "one", 10);
    if (!is_first) saved(*directory, filters);
    filters.add(0, "two", 10);
    const std::string name = is_first ? "generation-000000000001" : "generation-000000000002";
    // As if the directory were away from then on.
    disk.set_observer([&](const char* operation, const Path& path) {
      if (std::string_view(operation) == "create" && path.filename() == "MANIFEST")
        disk.lose_power_after(disk.operation_count());
    });
    REQUIRE(!directory->save(filters.snapshot(), {}));
    disk.crash(test::Survival::all, 0);
    REQUIRE(disk.files().contains("data/" + name + (is_first ? "/filter-1-0" : "/filter-2-1")));
    bool removed = false;
    disk.set_observer([&](const char* operation, const Path& path) {
      if (std::string_view(operation) == "make_directory") removed = !*disk.exists(path);
    });
    CHECK(saved(*directory, filters) == name);
    CHECK(removed);
    CHECK(test::same(filters.keyspace.cut(), test::load(*directory).filters));
  }
}

TEST_CASE("a load that is cancelled, or whose filters are refused, ends with that error") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  Filters filters;
  filters.add(0, "key", 10);
  saved(*directory, filters);
  const auto take = [](std::span<storage::LoadedValue>) { return Result<void>(); };
  const auto given_up = directory->load(test::roomy, take, [](const Progress&) { return false; });
  REQUIRE(!given_up);
  CHECK(given_up.error().code == Errc::io);

  const auto refuse = [](std::span<storage::LoadedValue>) { return Result<void>(fail(Errc::memory_limit)); };
  const auto refused = directory->load(test::roomy, refuse, {});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::memory_limit);
  CHECK(
      refused.error().detail ==
      "data/generation-000000000001/pack-0 has a filter at offset 32 that cannot be taken: the memory limit "
      "would be exceeded; raise maxmemory");
}

TEST_CASE("a load hands filters over a few at a time, and names a refused filter") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  Filters filters;
  constexpr std::size_t filter_count = 1000;
  for (std::size_t i = 0; i < filter_count; ++i) filters.add(0, "key" + std::to_string(i), 1);
  saved(*directory, filters);
  std::vector<std::uint64_t> offsets;
  std::size_t calls = 0;
  const auto take = [&](std::span<LoadedValue> batch) {
    ++calls;
    for (LoadedValue& loaded : batch) {
      offsets.push_back(loaded.offset);
      loaded.value = nullptr;
    }
    return Result<void>();
  };
  REQUIRE(directory->load(test::roomy, take, {}));
  CHECK(offsets.size() == filter_count);
  CHECK(calls > 1);
  CHECK(calls <= filter_count / 100);

  std::size_t taken = 0;
  constexpr std::size_t refused_at = 700;
  const auto refuse = [&](std::span<LoadedValue> batch) {
    for (LoadedValue& loaded : batch) {
      if (taken == refused_at) return Result<void>(fail(Errc::key_limit));
      loaded.value = nullptr;
      ++taken;
    }
    return Result<void>();
  };
  const auto refused = directory->load(test::roomy, refuse, {});
  REQUIRE(!refused);
  CHECK(refused.error().detail.find("at offset " + std::to_string(offsets[refused_at]) + " that") !=
        std::string::npos);
}

TEST_CASE("a filter within the limits is loaded; with one byte or layer more it is refused by name") {
  SimulatedDisk disk;
  const auto directory = opened(disk);
  Filters filters;
  const bloom::Filter& filter = filters.add(0, "key", 100, {.error_rate = 0.01, .capacity = 10, .seed = 3});
  saved(*directory, filters);
  const bloom::FilterLimits exact{.bytes_max = filter.byte_count(), .layers_max = filter.layer_count()};
  CHECK_FALSE(test::load(*directory, exact).error);

  const auto few_layers =
      test::load(*directory, {.bytes_max = exact.bytes_max, .layers_max = exact.layers_max - 1});
  REQUIRE(few_layers.error);
  CHECK(few_layers.error->code == Errc::layer_limit);
  CHECK(few_layers.error->detail.find("layers") != std::string::npos);
  const auto few_bytes =
      test::load(*directory, {.bytes_max = exact.bytes_max - 1, .layers_max = exact.layers_max});
  REQUIRE(few_bytes.error);
  CHECK(few_bytes.error->code == Errc::too_large);
  CHECK(few_bytes.error->detail.find("memory limit") != std::string::npos);
}

}  // namespace data_directory_test
