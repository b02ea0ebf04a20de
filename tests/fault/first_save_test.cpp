// The first save of a directory, with a power cut at every step and again in the save after it. No start may
// report the remains as a directory whose CURRENT was lost.
#include <sepal/storage/generation/data_directory.hpp>

#include "support/catch.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"

namespace first_save_test {

using namespace sepal;
using namespace sepal::storage;
using namespace test;

namespace {

constexpr std::uint64_t step_count_max = 200;
constexpr std::uint64_t chances = 12;

struct Outcome {
  bool saved = false;
  bool cut_off = false;  // by the power loss
  test::LoadOutcome loaded;
};

// A save during which the power fails, and the start after it.
Outcome save_and_lose_power(SimulatedDisk& disk, const test::Filters& filters, std::uint64_t step,
                            std::uint64_t seed) {
  Outcome outcome;
  auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
  REQUIRE(directory);
  disk.restart_count();
  disk.lose_power_after(step);
  outcome.saved = (*directory)->save(filters.snapshot(), {}).ok();
  outcome.cut_off = disk.operation_count() > step;
  directory->reset();
  const Survival survival = seed < 2 ? static_cast<Survival>(seed) : Survival::chance;
  disk.crash(survival, seed);
  outcome.loaded = test::open_and_load(disk, "data");
  return outcome;
}

}  // namespace

TEST_CASE("after a power loss at any step of the first save, a start finds nothing or all data",
          "[unsanitized]") {
  test::Filters filters;
  filters.add(0, "key", 5);
  const auto whole = [&](const test::LoadOutcome& loaded) {
    return !loaded.error && test::same(filters.keyspace.cut(), loaded.filters);
  };
  bool finished = false;
  for (std::uint64_t step = 0; !finished; ++step) {
    REQUIRE(step < step_count_max);
    for (std::uint64_t seed = 0; seed < chances; ++seed) {
      bool second_finished = false;
      for (std::uint64_t second_step = 0; !second_finished; ++second_step) {
        REQUIRE(second_step < step_count_max);
        INFO("step " << step << " seed " << seed << " second step " << second_step);
        SimulatedDisk disk;
        const Outcome first = save_and_lose_power(disk, filters, step, seed);
        INFO((first.loaded.error ? first.loaded.error->detail : ""));
        REQUIRE_FALSE(first.loaded.error);
        REQUIRE((whole(first.loaded) || (!first.saved && first.loaded.report.name.empty())));
        finished = !first.cut_off;
        const Outcome second = save_and_lose_power(disk, filters, second_step, seed);
        INFO((second.loaded.error ? second.loaded.error->detail : ""));
        REQUIRE_FALSE(second.loaded.error);
        REQUIRE((whole(second.loaded) || (!second.saved && !whole(first.loaded))));
        second_finished = !second.cut_off;
      }
    }
  }
}

TEST_CASE("a first save that fails at any step can be repeated until it succeeds") {
  test::Filters filters;
  filters.add(0, "key", 5);
  bool finished = false;
  for (std::uint64_t step = 1; !finished; ++step) {
    REQUIRE(step < step_count_max);
    for (const Errc code : {Errc::io, Errc::disk_full}) {
      INFO("step " << step);
      SimulatedDisk disk;
      {
        auto directory = DataDirectory::open(disk, "data", 1, std::nullopt);
        REQUIRE(directory);
        disk.restart_count();
        disk.fail_at(step, code);
        finished = (*directory)->save(filters.snapshot(), {}).ok() && disk.operation_count() < step;
        disk.stop_failing();
      }
      disk.crash(Survival::chance, step);
      REQUIRE_FALSE(test::open_and_load(disk, "data").error);
      auto again = DataDirectory::open(disk, "data", 1, std::nullopt);
      REQUIRE(again);
      REQUIRE((*again)->save(filters.snapshot(), {}));
      CHECK(test::same(filters.keyspace.cut(), test::load(**again).filters));
    }
  }
}

}  // namespace first_save_test
