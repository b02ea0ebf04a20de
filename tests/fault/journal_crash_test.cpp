// Power cuts and deaths of the process at every step of seeded workloads: adds, growth, creations, deletions,
// renames, flushes, saves, new segments. What is recovered must be what the clients knew at one moment, and
// none before the last that the policy promised.
//
// A step is an operation of the disk, or a change, which stores into the mapped journal. At each the disk is
// copied as a crash would leave it, and a server started on the copy.

#include <cstdlib>

#include "journaled_world.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"

using namespace sepal;
using storage::JournalPolicy;
using test::JournaledWorld;
using test::SimulatedDisk;
using test::Survival;

namespace {

constexpr std::uint32_t changes_of_workload = 60;
constexpr std::uint32_t save_period = 23;
constexpr std::uint32_t switching_save_period = 5;
constexpr int chances = 3;

// SEPAL_CRASH_POINTS: how many, for each policy.
std::uint64_t points_wanted() {
  const char* const text = std::getenv("SEPAL_CRASH_POINTS");
  return text == nullptr ? 4000 : std::strtoull(text, nullptr, 10);
}

class Crashes {
 public:
  explicit Crashes(JournalPolicy policy) : policy_(policy) {}

  [[nodiscard]] std::uint64_t points() const { return points_; }
  [[nodiscard]] std::uint64_t linked_bytes() const { return linked_bytes_; }

  void run(std::uint64_t seed) {
    begin(seed);
    JournaledWorld world(std::make_unique<SimulatedDisk>(), policy_);
    REQUIRE(world.error() == "");
    watch(world);
    for (std::uint32_t change = 1; change <= changes_of_workload; ++change) {
      world.change(random_);
      crash_here(world);
      if (change % save_period == 0) REQUIRE(world.save(random_));
      if (random_() % 4 == 0) world.journal().work();
    }
    linked_bytes_ += world.linked_bytes();
  }

  // With the journal switched off and on. What is recovered is of no moment that the clients knew, but from
  // then on nothing is lost. Every second disk fails now and then.
  void run_switching(std::uint64_t seed) {
    begin(seed);
    JournaledWorld world(std::make_unique<SimulatedDisk>(), policy_);
    REQUIRE(world.error() == "");
    world.switch_policies();
    switching_ = true;
    watch(world);
    for (std::uint32_t change = 1; change <= changes_of_workload; ++change) {
      if (seed % 2 == 0) trouble(world.disk());
      world.change(random_);
      crash_here(world);
      world.journal().work();
      if (change % switching_save_period == 0 || world.needs_save()) {
        const auto saved = world.save(random_);
        REQUIRE((saved || seed % 2 == 0));
      }
    }
    linked_bytes_ += world.linked_bytes();
  }

  // The same on a disk of which now and then an operation fails, or has no space for a while.
  void run_failing(std::uint64_t seed) {
    begin(seed);
    JournaledWorld world(std::make_unique<SimulatedDisk>(), policy_);
    REQUIRE(world.error() == "");
    watch(world);
    for (std::uint32_t change = 1; change <= changes_of_workload; ++change) {
      trouble(world.disk());
      world.change(random_);
      crash_here(world);
      world.journal().work();
      if (change % save_period == 0 || world.needs_save()) static_cast<void>(world.save(random_));
    }
    world.disk().stop_failing();
    world.disk().free_space();
    recover_service(world);
    linked_bytes_ += world.linked_bytes();
  }

 private:
  void begin(std::uint64_t seed) {
    seed_ = seed;
    step_ = 0;
    random_.seed(seed);
  }

  void trouble(SimulatedDisk& disk) {
    const std::uint64_t next = disk.operation_count() + 1;
    switch (random_() % 8) {
      case 0:
        return disk.fail_at(next + random_() % 8, Errc::io);
      case 1:
        return disk.fill_at(next + random_() % 8);
      case 2:
        return disk.free_space();
      default:
        return;
    }
  }

  // The disk is well: changes are taken again without anybody's help.
  void recover_service(JournaledWorld& world) {
    for (int tries = 0; tries < 3; ++tries) {
      world.journal().work();
      if (world.needs_save()) REQUIRE(world.save(random_));
    }
    INFO("workload " << seed_ << " " << world.journal().status().refusal);
    REQUIRE(world.journal().status().accepting);
    const std::size_t models = world.models().size();
    world.change(random_);
    REQUIRE(world.models().size() == models + 1);
    crash_here(world);
  }

  void watch(JournaledWorld& world) {
    world.disk().set_observer([this, &world](const char*, const storage::Path&) {
      if (looking_) return;
      looking_ = true;
      world.interfere();
      crash_here(world);
      looking_ = false;
    });
  }

  void crash_here(JournaledWorld& world) {
    ++step_;
    if (switching_) {
      for (const Survival survival : {Survival::all, Survival::synced, Survival::chance})
        check_anew(world, survival);
      return;
    }
    check(world, Survival::all, world.models().size() - 1);
    check(world, Survival::synced, world.durable_model());
    for (int i = 0; i < chances; ++i) check(world, Survival::chance, world.durable_model());
  }

  // A server that starts on what is left holds what the clients knew at `promised` or later.
  void check(JournaledWorld& world, Survival survival, std::size_t promised) {
    ++points_;
    INFO("policy " << static_cast<int>(policy_) << " workload " << seed_ << " step " << step_ << " survival "
                   << static_cast<int>(survival) << " point " << points_);
    JournaledWorld recovered(world.disk().crashed_copy(survival, points_), policy_);
    REQUIRE(recovered.error() == "");
    const std::vector<test::Model>& models = world.models();
    std::size_t model = models.size();
    while (model > promised &&
           !recovered.holds(models[model - 1], models[std::min(model, models.size() - 1)]))
      --model;
    REQUIRE(model > promised);
    if (points_ % 16 == 0) go_on(recovered, world.models()[model - 1]);
  }

  void check_anew(JournaledWorld& world, Survival survival) {
    ++points_;
    INFO("workload " << seed_ << " step " << step_ << " survival " << static_cast<int>(survival) << " point "
                     << points_);
    JournaledWorld recovered(world.disk().crashed_copy(survival, points_), policy_);
    REQUIRE(recovered.error() == "");
    go_on(recovered, recovered.outline());
  }

  // Recovered servers are servers: they change, and recover again.
  void go_on(JournaledWorld& world, const test::Model& model) {
    world.begin_from(model);
    std::mt19937_64 random(points_);
    for (int i = 0; i < 5; ++i) world.change(random);
    JournaledWorld recovered(world.disk().crashed_copy(Survival::all, points_), policy_);
    REQUIRE(recovered.error() == "");
    REQUIRE(recovered.holds(world.models().back(), world.models().back()));
  }

  JournalPolicy policy_;
  std::mt19937_64 random_;
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t points_ = 0;
  bool looking_ = false;
  bool switching_ = false;
  std::uint64_t linked_bytes_ = 0;
};

// Returns how many bytes of generations were linked.
template <class Run>
std::uint64_t crash_everywhere(JournalPolicy policy, const Run& run) {
  Crashes crashes(policy);
  for (std::uint64_t seed = 1; crashes.points() < points_wanted(); ++seed) (crashes.*run)(seed);
  WARN("crash points tried: " << crashes.points() << ", bytes linked: " << crashes.linked_bytes());
  return crashes.linked_bytes();
}

}  // namespace

TEST_CASE("under always no crash at any step loses a change that was answered", "[storage][fault][crash]") {
  CHECK(crash_everywhere(JournalPolicy::always, &Crashes::run) > 0);
}

TEST_CASE("under everysec a power cut loses nothing before the last sync, and a kill nothing",
          "[storage][fault][crash]") {
  CHECK(crash_everywhere(JournalPolicy::everysec, &Crashes::run) > 0);
}

TEST_CASE("a disk that fails now and then loses nothing that was durable, and changes are taken again",
          "[storage][fault][crash]") {
  crash_everywhere(GENERATE(JournalPolicy::always, JournalPolicy::everysec), &Crashes::run_failing);
}

TEST_CASE("what is recorded after a crash is not lost, whenever the journal was off before",
          "[storage][fault][crash]") {
  CHECK(crash_everywhere(JournalPolicy::everysec, &Crashes::run_switching) > 0);
}
