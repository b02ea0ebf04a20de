// Storage keeps values of a kind that it has never heard of.
#include <sepal/base/gate.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/storage/examine/examine.hpp>
#include <sepal/storage/generation/filter_file.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/value/image.hpp>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/journal_files.hpp"
#include "support/simulated_disk.hpp"
#include "toy/toy.hpp"

namespace toy_storage_test {

using namespace sepal;
using namespace sepal::storage;
using test::SimulatedDisk;
using toy::Toy;
using Members = std::set<std::string>;

namespace {

constexpr value::Limits roomy{.bytes_max = std::uint64_t{1} << 32};
constexpr keyspace::DatabaseKey a{.database = 0, .key = "a"};
constexpr keyspace::DatabaseKey b{.database = 3, .key = "b"};
constexpr DataDirectoryOptions own_files{.own_file_bytes_min = 1};

// A keyspace whose changes a journal keeps.
struct World {
  test::FreeingHousekeeper housekeeper;
  keyspace::Keyspace keyspace{{.memory_max = std::uint64_t{1} << 30}, housekeeper};
  test::JournalFiles journal;

  void make(keyspace::DatabaseKey key) {
    REQUIRE(keyspace.make_recorded(key, Toy::own_kind, {}));
    journal.record(keyspace::Made{.key = key, .kind = Toy::own_kind});
    journal.end_frame();
  }
  void change(keyspace::DatabaseKey key, std::uint8_t what, std::string_view member) {
    const auto bytes = std::as_bytes(std::span(member));
    REQUIRE(keyspace.change_recorded(key, Toy::own_kind, what, bytes));
    journal.record(keyspace::Changed{.key = key, .kind = Toy::own_kind, .what = what, .bytes = bytes});
    journal.end_frame();
  }
  void learn(keyspace::DatabaseKey key, std::string_view member) { change(key, toy::learned, member); }
  void forget(keyspace::DatabaseKey key, std::string_view member) { change(key, toy::forgotten, member); }
  [[nodiscard]] Members members(keyspace::DatabaseKey key) const {
    const auto* const found = value::as<Toy>(keyspace.find(key));
    return found == nullptr ? Members() : found->members();
  }
  [[nodiscard]] Snapshot snapshot() const { return snapshot_of(keyspace, WallTime(), journal.position()); }
};

std::unique_ptr<DataDirectory> opened(SimulatedDisk& disk) {
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, own_files);
  REQUIRE(directory);
  return std::move(*directory);
}

// What a start has after a load and a replay.
std::unique_ptr<World> started(SimulatedDisk& disk) {
  auto world = std::make_unique<World>();
  const auto directory = opened(disk);
  ReplayStart start;
  const auto take = [&](std::span<LoadedValue> values) -> Result<void> {
    for (LoadedValue& loaded : values) {
      start.positions.note(loaded, *loaded.value);
      REQUIRE(world->keyspace.put({loaded.database, loaded.key}, std::move(loaded.value), loaded.deadline));
    }
    return {};
  };
  const auto loaded = directory->load(roomy, take, {});
  INFO((loaded ? "" : loaded.error().detail));
  REQUIRE(loaded);
  start.cut = loaded->journal_position;
  start.run = loaded->run;
  Gate gate(1);
  const auto replayed = replay_journal(disk, "data", world->keyspace, gate, std::move(start), {});
  INFO((replayed ? "" : replayed.error().detail));
  REQUIRE(replayed);
  return world;
}

std::vector<std::string> facts_of(SimulatedDisk& disk, const Path& path) {
  std::vector<std::string> lines;
  REQUIRE(inspect_file(disk, path, [&](const Fact& fact) { lines.push_back(fact.line()); }));
  return lines;
}

}  // namespace

TEST_CASE("a journal alone makes values of any kind, with what they have forgotten") {
  World world;
  world.make(a);
  world.learn(a, "one");
  world.learn(a, "two");
  world.forget(a, "one");
  SimulatedDisk disk;
  world.journal.put(disk, "data");
  CHECK(started(disk)->members(a) == Members{"two"});
  const auto lines = facts_of(disk, "data/journal-000000000001");
  CHECK(std::ranges::find(lines, R"(created database=0 key="a")") != lines.end());
  CHECK(std::ranges::find(lines, R"(forgotten database=0 key="a" bytes=3)") != lines.end());
}

TEST_CASE("a change that a value cannot make is damage") {
  World world;
  world.make(a);
  world.journal.record(keyspace::Changed{.key = a, .kind = Toy::own_kind, .what = toy::forgotten});
  world.journal.end_frame();
  SimulatedDisk disk;
  world.journal.put(disk, "data");
  Gate gate(1);
  World replayed;
  CHECK(replay_journal(disk, "data", replayed.keyspace, gate, {}, {}).error().code == Errc::damaged);
}

// A later generation would otherwise lack what the toy has forgotten and learned: its count is as before.
TEST_CASE("a save links the file of a value that has not changed, and writes one that has") {
  SimulatedDisk disk;
  World world;
  auto directory = opened(disk);
  world.make(a);
  world.learn(a, "one");
  world.make(b);
  world.learn(b, "one");
  REQUIRE(directory->save(world.snapshot(), {}));
  world.forget(b, "one");
  world.learn(b, "two");
  const auto second = directory->save(world.snapshot(), {});
  REQUIRE(second);
  CHECK(second->linked_bytes > 0);
  CHECK(second->linked_bytes < second->bytes / 2);
  CHECK(disk.files().contains("data/generation-000000000002/filter-1-0"));
  world.journal.put(disk, "data");
  directory = nullptr;
  const auto loaded = started(disk);
  CHECK(loaded->members(a) == Members{"one"});
  CHECK(loaded->members(b) == Members{"two"});
}

// Between the freeze and the end of the save, the toy forgets and learns. The generation has the instant of
// the freeze, and the journal the rest, from there on.
TEST_CASE("a value that changes while a save reads it is held still") {
  SimulatedDisk disk;
  World world;
  world.make(a);
  for (const char* member : {"one", "two", "three"}) world.learn(a, member);
  const std::uint64_t cut = world.journal.position();
  SnapshotTaker taker(world.keyspace, WallTime(), cut);
  taker.reserve();
  world.forget(a, "two");  // between the cut and the freeze
  while (!taker.step(10, world.journal.position())) {
  }
  const Snapshot snapshot = taker.finish();
  world.forget(a, "one");
  world.learn(a, "four");
  REQUIRE(opened(disk)->save(snapshot, {}));
  world.learn(a, "one");
  world.journal.put(disk, "data");
  CHECK(started(disk)->members(a) == Members{"four", "one", "three"});
}

TEST_CASE("a crash at any step of a save leaves what the journal has") {
  for (std::uint64_t step = 1;; ++step) {
    SimulatedDisk disk;
    World world;
    world.make(a);
    world.learn(a, "one");
    world.journal.put(disk, "data");
    const auto directory = opened(disk);
    REQUIRE(directory->save(world.snapshot(), {}));
    world.forget(a, "one");
    world.learn(a, "two");
    world.journal.sync();
    world.journal.put(disk, "data");
    disk.restart_count();
    disk.lose_power_after(step);
    const bool saved = directory->save(world.snapshot(), {}).ok();
    const auto after = disk.crashed_copy(test::Survival::synced, step);
    CHECK(started(*after)->members(a) == Members{"two"});
    if (saved) break;
  }
}

TEST_CASE("verify, inspect and salvage tell of values of any kind") {
  SimulatedDisk disk;
  World world;
  world.make(a);
  world.learn(a, "one");
  REQUIRE(opened(disk)->save(world.snapshot(), {}));
  world.journal.put(disk, "data");
  const auto findings = verify_directory(disk, "data", {});
  REQUIRE(findings);
  const bool told = std::ranges::any_of(*findings, [](const Finding& finding) {
    return finding.text.find(" and 1 toys in") != std::string::npos;
  });
  for (const Finding& finding : *findings) UNSCOPED_INFO(finding.text);
  CHECK(told);
  const auto lines = facts_of(disk, "data/generation-000000000001/filter-1-0");
  REQUIRE(lines.size() == 2);
  INFO(lines[1]);
  CHECK(lines[1].starts_with(R"(toy offset=32 database=0 key="a" items=1 journal_position=)"));
  const auto salvaged = salvage_directory(disk, "data", "saved", 1, {});
  REQUIRE(salvaged);
  CHECK(count_of(salvaged->values, Toy::own_kind) == 1);
  CHECK(salvaged->items == 1);
}

TEST_CASE("every changed byte of a value in a file of its own is noticed") {
  const value::ValuePtr whole(new Toy);
  REQUIRE(static_cast<Toy&>(*whole).apply(toy::learned, "one"));
  SimulatedDisk disk;
  disk.put("out/other", {});
  REQUIRE(write_filter_file(disk, "out/toy", "key", value::Frozen(whole).view(), {}));
  const auto read = read_filter_file(disk, "out/toy", roomy, {});
  REQUIRE(read);
  CHECK(static_cast<Toy&>(*read->value).members() == Members{"one"});
  CHECK(verify_filter_file(disk, "out/toy", {})->text == "out/toy has a toy with 1 items");
  const auto bytes = disk.files()["out/toy"];
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto changed = bytes;
    changed[at] ^= std::byte{1};
    disk.put("out/toy", changed);
    CHECK_FALSE(read_filter_file(disk, "out/toy", roomy, {}));
  }
}

TEST_CASE("a value for whose check the system has no memory is not called damaged") {
  const value::ValuePtr whole(new Toy);
  SimulatedDisk disk;
  disk.put("out/other", {});
  REQUIRE(write_filter_file(disk, "out/toy", "key", value::Frozen(whole).view(), {}));
  value::system_lacks_memory = true;
  const auto read = read_filter_file(disk, "out/toy", roomy, {});
  value::system_lacks_memory = false;
  REQUIRE(!read);
  CHECK(read.error().code == Errc::out_of_memory);
  CHECK(read.error().detail.ends_with("that the system has no memory for"));
}

}  // namespace toy_storage_test
