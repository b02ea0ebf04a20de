// A save after an older generation, on a disk that fails, gets full or loses power at every step of the save.
#include <sepal/storage/generation/data_directory.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace save_fault_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

// More steps than a save has. A loop that reaches this would never end.
constexpr std::uint64_t step_count_max = 200;
// Enough that every combination of two things that may survive a power loss occurs.
constexpr std::uint64_t chances = 32;
constexpr DataDirectoryOptions with_own_files{.own_file_bytes_min = 1000};

std::unique_ptr<DataDirectory> opened(Disk& disk) {
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, with_own_files);
  REQUIRE(directory);
  return std::move(*directory);
}

// The old and the new generation differ in everything except one filter, whose file is linked.
struct Generations {
  test::Filters old_filters;
  test::Filters new_filters;

  Generations() {
    old_filters.add(0, "small", 5);
    old_filters.add(0, "large", 10, {.error_rate = 0.01, .capacity = 2000, .seed = 1});
    bloom::Filter& linked =
        old_filters.add(0, "linked", 20, {.error_rate = 0.01, .capacity = 5000, .seed = 1});
    REQUIRE(new_filters.keyspace.put({.database = 0, .key = "linked"}, sepal::bloom::FilterPtr(&linked)));
    new_filters.add(0, "small", 9);
    new_filters.add(0, "large", 30, {.error_rate = 0.01, .capacity = 3000, .seed = 1});
    new_filters.add(5, "larger", 10, {.error_rate = 0.01, .capacity = 4000, .seed = 1});
  }
  [[nodiscard]] bool old_in(const test::LoadOutcome& outcome) const {
    return !outcome.error && test::same(old_filters.keyspace.cut(), outcome.filters);
  }
  [[nodiscard]] bool new_in(const test::LoadOutcome& outcome) const {
    return !outcome.error && test::same(new_filters.keyspace.cut(), outcome.filters);
  }
};

// A disk that holds the old generation, and the open directory on it.
struct Start {
  SimulatedDisk disk;
  std::unique_ptr<DataDirectory> directory;

  explicit Start(const Generations& generations) {
    directory = opened(disk);
    REQUIRE(directory->save(generations.old_filters.snapshot(), {}));
    disk.restart_count();
  }
};

// Calls `take` with 1, 2, 3 ... until it answers that the save had fewer steps.
void at_each_step(const auto& take) {
  bool finished = false;
  for (std::uint64_t step = 1; !finished; ++step) {
    REQUIRE(step < step_count_max);
    INFO("step " << step);
    finished = take(step);
  }
}

// Checks that there are only files of the current generation.
bool without_remains(SimulatedDisk& disk) {
  const auto names = disk.list("data");
  REQUIRE(names);
  return names->size() == 3 && (*names)[0] == "CURRENT" && (*names)[1] == "SEED";
}

}  // namespace

TEST_CASE(
    "after a power loss at any step of a save, a load finds the whole old or the whole new generation") {
  const Generations generations;
  for (const Survival survival : {Survival::synced, Survival::all, Survival::chance}) {
    const std::uint64_t tries = survival == Survival::chance ? chances : 1;
    bool finished = false;
    for (std::uint64_t step = 0; !finished; ++step) {
      REQUIRE(step < step_count_max);
      for (std::uint64_t seed = 0; seed < tries; ++seed) {
        INFO("survival " << static_cast<int>(survival) << " step " << step << " seed " << seed);
        Start start(generations);
        start.disk.lose_power_after(step);
        const bool saved = start.directory->save(generations.new_filters.snapshot(), {}).ok();
        finished = start.disk.operation_count() <= step;
        start.directory.reset();
        start.disk.crash(survival, seed);

        const auto loaded = test::open_and_load(start.disk, "data");
        REQUIRE((generations.new_in(loaded) || (!saved && generations.old_in(loaded))));
        CHECK(without_remains(start.disk));
        REQUIRE(opened(start.disk)->save(generations.new_filters.snapshot(), {}));
        CHECK(generations.new_in(test::open_and_load(start.disk, "data")));
      }
    }
  }
}

TEST_CASE("the save of these fault tests links files") {
  const Generations generations;
  Start start(generations);
  const auto report = start.directory->save(generations.new_filters.snapshot(), {});
  REQUIRE(report);
  CHECK(report->linked_bytes > 5000);
}

// Each save links files that the save before has linked, and files that a load has read.
TEST_CASE("after a power loss at any step of several saves, a file that each save linked is whole") {
  const Generations generations;
  bool finished = false;
  for (std::uint64_t step = 0; !finished; ++step) {
    REQUIRE(step < 3 * step_count_max);
    INFO("step " << step);
    Start start(generations);
    start.disk.lose_power_after(step);
    int saves = 0;
    while (saves < 3 && start.directory->save(generations.new_filters.snapshot(), {}).ok()) ++saves;
    finished = saves == 3;
    start.directory.reset();
    start.disk.crash(Survival::chance, step);

    const auto directory = opened(start.disk);
    const auto loaded = test::load(*directory);
    REQUIRE((generations.new_in(loaded) || (saves == 0 && generations.old_in(loaded))));
    test::Filters again;
    for (const auto& [key, filter] : loaded.filters)
      REQUIRE(again.keyspace.put({.database = key.first, .key = key.second}, filter));
    const auto report = directory->save(again.snapshot(), {});
    REQUIRE(report);
    CHECK(report->linked_bytes > 5000);
    CHECK(test::same(again.keyspace.cut(), test::load(*directory).filters));
  }
}

TEST_CASE("after a power loss at any step of the first save, a load finds nothing or the new generation") {
  const Generations generations;
  bool finished = false;
  for (std::uint64_t step = 0; !finished; ++step) {
    REQUIRE(step < step_count_max);
    for (std::uint64_t seed = 0; seed < chances; ++seed) {
      INFO("step " << step << " seed " << seed);
      SimulatedDisk disk;
      disk.lose_power_after(step);
      bool saved = false;
      {
        auto directory = DataDirectory::open(disk, "data", 1, std::nullopt, with_own_files);
        if (directory) saved = (*directory)->save(generations.new_filters.snapshot(), {}).ok();
      }
      finished = disk.operation_count() <= step;
      disk.crash(Survival::chance, seed);
      const auto loaded = test::open_and_load(disk, "data");
      REQUIRE_FALSE(loaded.error);
      CHECK((generations.new_in(loaded) || (!saved && loaded.filters.empty())));
    }
  }
}

TEST_CASE("a save that fails at any step leaves a whole generation, and the next save works") {
  const Generations generations;
  const Errc code = GENERATE(Errc::io, Errc::disk_full, Errc::read_only, Errc::not_found);
  INFO("error " << static_cast<int>(code));
  at_each_step([&](std::uint64_t step) {
    Start start(generations);
    start.disk.fail_at(step, code);
    const auto saved = start.directory->save(generations.new_filters.snapshot(), {});
    const bool finished = start.disk.operation_count() < step;
    start.disk.stop_failing();
    const auto loaded = test::load(*start.directory);
    // The new generation after an error: only the last sync, that of the directory, has failed.
    REQUIRE((saved ? generations.new_in(loaded) : generations.old_in(loaded) || generations.new_in(loaded)));
    if (!saved) CHECK(saved.error().code == code);
    if (!saved && generations.old_in(loaded)) CHECK(without_remains(start.disk));
    REQUIRE(start.directory->save(generations.new_filters.snapshot(), {}));
    CHECK(without_remains(start.disk));
    CHECK(generations.new_in(test::load(*start.directory)));
    return finished;
  });
}

TEST_CASE(
    "a failed save and then a power loss leave the whole old or the whole new generation, also with a "
    "restart between them") {
  const Generations generations;
  const bool restarts = GENERATE(false, true);
  at_each_step([&](std::uint64_t step) {
    bool finished = false;
    for (std::uint64_t seed = 0; seed < chances; ++seed) {
      INFO("seed " << seed);
      Start start(generations);
      start.disk.fail_at(step, Errc::io);
      const bool saved = start.directory->save(generations.new_filters.snapshot(), {}).ok();
      finished = start.disk.operation_count() < step;
      start.disk.stop_failing();
      start.directory.reset();
      if (restarts) opened(start.disk).reset();
      start.disk.crash(Survival::chance, seed);
      const auto loaded = test::open_and_load(start.disk, "data");
      REQUIRE((generations.new_in(loaded) || (!saved && generations.old_in(loaded))));
    }
    return finished;
  });
}

TEST_CASE("a disk that gets full at any step makes the save fail, and keeps the old generation") {
  const Generations generations;
  at_each_step([&](std::uint64_t step) {
    Start start(generations);
    start.disk.fill_at(step);
    const auto saved = start.directory->save(generations.new_filters.snapshot(), {});
    const bool finished = start.disk.operation_count() < step;
    if (!saved) {
      CHECK(saved.error().code == Errc::disk_full);
      CHECK(without_remains(start.disk));
      CHECK(generations.old_in(test::load(*start.directory)));
    }
    start.disk.free_space();
    REQUIRE(start.directory->save(generations.new_filters.snapshot(), {}));
    CHECK(generations.new_in(test::load(*start.directory)));
    return finished;
  });
}

TEST_CASE("a load that fails at any step reports the error, and the next load works") {
  const Generations generations;
  at_each_step([&](std::uint64_t step) {
    Start start(generations);
    start.disk.fail_at(step, Errc::io);
    const auto failed = test::load(*start.directory);
    const bool finished = start.disk.operation_count() < step;
    start.disk.stop_failing();
    if (!finished) {
      REQUIRE(failed.error);
      CHECK(failed.error->code == Errc::io);
      CHECK(failed.error->detail.find("data/") != std::string::npos);
    }
    CHECK(generations.old_in(test::load(*start.directory)));
    return finished;
  });
}

}  // namespace save_fault_test
