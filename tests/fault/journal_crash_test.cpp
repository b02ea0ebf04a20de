// Power cuts and deaths of the process at every step of seeded workloads: adds, growth, creations, deletions,
// renames, flushes, changes of strings, transactions, saves, new segments. The recovered keyspace must be the
// one that the clients knew at some moment, and not at a moment before the last one that the policy promised
// to keep.
//
// A step is an operation of the disk, or a change, which stores into the mapped journal. At each step the
// test copies the disk as a crash would leave it, and starts a server on the copy. From another copy it
// removes the last segment: a server may start on that only if it has everything before the position in
// SYNCED. In a third copy the process died while it stored the last change: of a transaction nothing may be
// there then.

#include <malloc.h>

#include "journaled_world.hpp"
#include "storage/format/synced_file.hpp"
#include "storage/journal/segment_files.hpp"
#include "support/catch.hpp"
#include "support/storage_fixture.hpp"

namespace journal_crash_test {

using namespace sepal;
using storage::JournalPolicy;
using namespace test;

namespace {

constexpr std::uint32_t changes_of_workload = 60;
constexpr std::uint32_t save_period = 23;
constexpr std::uint32_t switching_save_period = 5;
constexpr int chances = 3;

// A copy of the disk is made and freed at each step. Below this size malloc keeps the memory; otherwise it
// would unmap it, and the system would clear the pages of the next copy.
constexpr int kept_bytes = 32 << 20;
[[maybe_unused]] const bool malloc_keeps_memory =
    mallopt(M_MMAP_THRESHOLD, kept_bytes) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1;

// SEPAL_CRASH_POINTS: the number of crash points for each policy.
constexpr std::uint64_t points_usual = 4000;

std::uint64_t points_wanted() {
  const char* const text = std::getenv("SEPAL_CRASH_POINTS");
  return text == nullptr ? points_usual : std::strtoull(text, nullptr, 10);
}

class Crashes {
 public:
  explicit Crashes(JournalPolicy policy, test::Strings strings = test::Strings::shorter)
      : policy_(policy), strings_(strings) {}

  [[nodiscard]] std::uint64_t points() const { return points_; }
  [[nodiscard]] std::uint64_t linked_bytes() const { return linked_bytes_; }
  // How many starts without the last segment were refused.
  [[nodiscard]] std::uint64_t refusals() const { return refusals_; }
  // How many transactions a death divided.
  [[nodiscard]] std::uint64_t divided() const { return divided_; }
  [[nodiscard]] bool switching() const { return switching_; }

  void run(std::uint64_t seed) {
    begin(seed);
    JournaledWorld world(std::make_unique<SimulatedDisk>(), policy_, strings_);
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

  // Switches the journal off and on. The recovered keyspace may be of no moment that the clients knew, but
  // from then on nothing is lost. Every second disk fails now and then.
  void run_switching(std::uint64_t seed) {
    begin(seed);
    JournaledWorld world(std::make_unique<SimulatedDisk>(), policy_, strings_);
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

  // The same on a disk where an operation fails now and then, or that has no space for a while.
  void run_failing(std::uint64_t seed) {
    begin(seed);
    JournaledWorld world(std::make_unique<SimulatedDisk>(), policy_, strings_);
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
      case 0: return disk.fail_at(next + random_() % 8, Errc::io);
      case 1: return disk.fill_at(next + random_() % 8);
      case 2: return disk.free_space();
      default: return;
    }
  }

  // The disk works again: the server must accept changes again by itself.
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
    check_loss(world);
    check_death(world);
  }

  // Stores into the mapped segments become visible in their order, so a death leaves the first of them.
  static void keep_until(SimulatedDisk& disk, std::uint64_t position) {
    constexpr std::size_t header_bytes = sizeof(storage::format::SegmentHeader);
    const auto segments = storage::list_segments(disk, "data");
    REQUIRE(segments);
    for (const storage::SegmentFile& segment : *segments) {
      if (!segment.begins()) continue;
      test::Bytes bytes = disk.files().at(segment.path.string());
      std::size_t kept = 0;
      if (segment.first_position <= position)
        kept = header_bytes + static_cast<std::size_t>(position - segment.first_position);
      if (kept >= bytes.size()) continue;
      std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(kept), bytes.end(), std::byte{0});
      disk.put(segment.path, bytes);
    }
  }

  void check_death(JournaledWorld& world) {
    const auto [begin, end] = world.last_change();
    const std::uint64_t from = std::max(begin, world.journal().durable_position());
    if (world.models().size() < 2 || from >= end || world.journal().gap() > begin) return;
    ++deaths_;
    const std::uint64_t position = from + deaths_ * 7919 % (end - from);
    INFO("policy " << static_cast<int>(policy_) << " workload " << seed_ << " step " << step_
                   << " died at position " << position);
    auto disk = world.disk().crashed_copy(Survival::all, deaths_);
    keep_until(*disk, position);
    JournaledWorld recovered(std::move(disk), policy_, strings_);
    REQUIRE(recovered.error() == "");
    const test::Model& last = world.models().back();
    const test::Model& before = world.models()[world.models().size() - 2];
    if (last.by_transaction && !recovered.holds(last, last)) ++divided_;
    REQUIRE((recovered.holds(before, last) || recovered.holds(last, last)));
  }

  // Removes the newest segment, zeroes it, or cuts it inside its header.
  void lose_last_segment(SimulatedDisk& disk) {
    const auto segments = storage::list_segments(disk, "data");
    if (!segments) return;
    const auto last = std::find_if(segments->rbegin(), segments->rend(),
                                   [](const storage::SegmentFile& segment) { return segment.begins(); });
    if (last == segments->rend()) return;
    switch (losses_ % 3) {
      case 0: return disk.put(last->path, test::Bytes(static_cast<std::size_t>(last->byte_count)));
      case 1: return disk.put(last->path, test::Bytes(losses_ % sizeof(storage::format::SegmentHeader)));
      default: REQUIRE(disk.remove(last->path));
    }
  }

  void check_loss(JournaledWorld& world) {
    ++losses_;
    INFO("policy " << static_cast<int>(policy_) << " workload " << seed_ << " step " << step_
                   << " without its last segment, point " << losses_);
    auto disk = world.disk().crashed_copy(losses_ % 2 == 0 ? Survival::all : Survival::chance, losses_);
    const auto mark = storage::read_synced(*disk, storage::synced_path("data"));
    REQUIRE(mark);
    lose_last_segment(*disk);
    JournaledWorld recovered(std::move(disk), policy_, strings_);
    if (recovered.error().find("bytes are missing") != std::string::npos) ++refusals_;
    if (!recovered.error().empty() || !*mark) return;
    const std::vector<test::Model>& models = world.models();
    std::size_t model = models.size();
    const std::size_t promised = world.model_at((*mark)->position);
    while (model > promised &&
           !recovered.holds(models[model - 1], models[std::min(model, models.size() - 1)]))
      --model;
    REQUIRE(model > promised);
  }

  // A server that starts on the rest must hold the model of `promised` or a later one.
  void check(JournaledWorld& world, Survival survival, std::size_t promised) {
    ++points_;
    INFO("policy " << static_cast<int>(policy_) << " workload " << seed_ << " step " << step_ << " survival "
                   << static_cast<int>(survival) << " point " << points_);
    JournaledWorld recovered(world.disk().crashed_copy(survival, points_), policy_, strings_);
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
    JournaledWorld recovered(world.disk().crashed_copy(survival, points_), policy_, strings_);
    REQUIRE(recovered.error() == "");
    go_on(recovered, recovered.outline());
  }

  // A recovered server must work like any other: it makes changes and recovers again.
  void go_on(JournaledWorld& world, const test::Model& model) {
    world.begin_from(model);
    std::mt19937_64 random(points_);
    for (int i = 0; i < 5; ++i) world.change(random);
    JournaledWorld recovered(world.disk().crashed_copy(Survival::all, points_), policy_, strings_);
    REQUIRE(recovered.error() == "");
    REQUIRE(recovered.holds(world.models().back(), world.models().back()));
    recovered.check_account();
  }

  JournalPolicy policy_;
  test::Strings strings_;
  std::mt19937_64 random_;
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t points_ = 0;
  bool looking_ = false;
  bool switching_ = false;
  std::uint64_t linked_bytes_ = 0;
  std::uint64_t losses_ = 0;  // of last segments
  std::uint64_t refusals_ = 0;
  std::uint64_t deaths_ = 0;
  std::uint64_t divided_ = 0;
};

// Returns whether bytes of generations were linked, as far as there are points enough to meet that.
template <class Run>
bool crash_everywhere(JournalPolicy policy, const Run& run, test::Strings strings = test::Strings::shorter) {
  Crashes crashes(policy, strings);
  // Each point takes forty times as long where strings are longer.
  const std::uint64_t wanted = strings == test::Strings::longer ? points_wanted() / 16 : points_wanted();
  for (std::uint64_t seed = 1; crashes.points() < wanted; ++seed) (crashes.*run)(seed);
  WARN("crash points tried: " << crashes.points() << ", bytes linked: " << crashes.linked_bytes()
                              << ", starts refused without the last segment: " << crashes.refusals()
                              << ", transactions divided: " << crashes.divided());
  // Few points do not meet every case.
  const bool are_few = points_wanted() < points_usual;
  CHECK((crashes.divided() > 0 || crashes.switching() || are_few));
  return crashes.linked_bytes() > 0 || are_few;
}

}  // namespace

TEST_CASE("under always, a crash at any step loses no answered change", "[crash]") {
  CHECK(crash_everywhere(JournalPolicy::always, &Crashes::run));
}

TEST_CASE("under everysec, a power cut loses nothing before the last sync, and a kill loses nothing",
          "[crash][unsanitized]") {
  CHECK(crash_everywhere(JournalPolicy::everysec, &Crashes::run));
}

TEST_CASE("under always, a crash at any step leaves each string as some prefix of its changes made it",
          "[crash][unsanitized]") {
  crash_everywhere(JournalPolicy::always, &Crashes::run, test::Strings::longer);
}

TEST_CASE("under everysec, a crash at any step leaves each string as some prefix of its changes made it",
          "[crash]") {
  crash_everywhere(JournalPolicy::everysec, &Crashes::run, test::Strings::longer);
}

TEST_CASE("after errors of the disk, no durable change is lost, and changes are accepted again", "[crash]") {
  crash_everywhere(GENERATE(JournalPolicy::always, JournalPolicy::everysec), &Crashes::run_failing);
}

TEST_CASE("changes after a crash are not lost, whenever the journal was off before", "[crash]") {
  CHECK(crash_everywhere(JournalPolicy::everysec, &Crashes::run_switching));
}

}  // namespace journal_crash_test
