// Workers add to and remove from the same few filters that delete, make and remove their keys, while saves go
// on. What a start finds, from the journal alone or from the last save and what the journal has behind it, is
// exactly what is in memory: each copy of each item.
#include <sepal/base/gate.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/cuckoo/native/filter.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/writers/cuckoo_writer.hpp>

#include <map>
#include <optional>
#include <random>
#include <thread>

#include "support/journal_fixture.hpp"
#include "support/keys_made.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace cuckoo_threads_property {

namespace {

using namespace sepal;
using cuckoo::Filter;
using keyspace::Admission;
using keyspace::DatabaseKey;

constexpr std::size_t worker_count = 6;  // more than most machines of tests have cores
constexpr int batches_of_each = 1200;
constexpr std::uint64_t items_max = 3000;
constexpr std::uint64_t record_bytes = std::uint64_t{64} << 10;

// The copies of each item, and the counts. The shapes of cells depend on their history, and are left out.
struct Named {
  std::vector<std::uint64_t> counts;
  std::uint64_t items = 0;
  std::uint64_t removed = 0;
  keyspace::Deadline deadline = keyspace::no_deadline;
  friend bool operator==(const Named&, const Named&) = default;
};
using State = std::map<std::string, Named>;

State state_of(const keyspace::Keyspace& keys) {
  State state;
  for (const keyspace::CutEntry& entry : keys.cut()) {
    const auto& filter = value::as<Filter>(*entry.value);
    Named& named = state[entry.key];
    for (std::uint64_t item = 0; item < items_max; ++item)
      named.counts.push_back(filter.count(std::to_string(item)));
    named.items = filter.item_count();
    named.removed = filter.removed_count();
    named.deadline = entry.deadline;
  }
  return state;
}

class World : public test::JournalFixture {
 public:
  explicit World(std::uint64_t seed) : seed_(seed) {
    storage::JournalOptions options = test::small_journal;
    options.segment_bytes = std::uint64_t{16} << 20;
    options.threaded = true;
    REQUIRE(try_open(options, 0, worker_count));
  }

  // Saves again and again meanwhile, but not once after the workers have ended.
  void run(bool saves) {
    auto opened = storage::DataDirectory::open(disk, directory, 1, std::nullopt,
                                               storage::DataDirectoryOptions{.own_file_bytes_min = 4096});
    REQUIRE(opened);
    std::atomic<std::size_t> running{worker_count};
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < worker_count; ++worker)
      workers.emplace_back([&, worker] {
        run_worker(worker);
        --running;
      });
    while (saves && running != 0) save(**opened);
    for (std::thread& worker : workers) worker.join();
  }

  // What a start would find.
  [[nodiscard]] State started(bool loads) {
    journal.reset();
    test::Filters found;
    storage::ReplayStart start;
    if (loads) {
      const auto opened = storage::DataDirectory::open(
          disk, directory, 1, std::nullopt, storage::DataDirectoryOptions{.own_file_bytes_min = 4096});
      REQUIRE(opened);
      const auto take = [&](std::span<storage::LoadedValue> values) -> Result<void> {
        for (storage::LoadedValue& loaded : values) {
          start.positions.note(loaded, *loaded.value);
          REQUIRE(
              found.keyspace.put({loaded.database, loaded.key}, std::move(loaded.value), loaded.deadline));
        }
        return {};
      };
      const auto loaded = (*opened)->load(test::roomy, take, {});
      INFO((loaded ? std::string() : loaded.error().detail));
      REQUIRE(loaded);
      start.cut = loaded->journal_position;
      start.run = loaded->run;
    }
    Gate gate(1);
    const auto report = storage::replay_journal(disk, directory, found.keyspace, gate, std::move(start), {});
    INFO((report ? std::string() : report.error().detail));
    REQUIRE(report);
    return state_of(found.keyspace);
  }

  test::Filters filters;
  std::atomic<std::size_t> save_count{0};

 private:
  struct Worker {
    std::size_t index;
    keyspace::WorkerLog& log;
    std::mt19937_64 random;
    Limbo limbo;
    std::vector<Filter::AddOutcome> outcomes{};
  };

  void save(storage::DataDirectory& directory_) {
    std::optional<storage::SnapshotTaker> taker;
    {
      const GateClosed closed(gate_);
      taker.emplace(filters.keyspace, WallTime(), journal->position());
    }
    taker->reserve();
    for (bool last = false; !last;) {
      const GateClosed closed(gate_);
      last = taker->step(2, journal->position());
    }
    const storage::Snapshot snapshot = taker->finish();
    const auto saved = directory_.save(snapshot, {});
    INFO((saved ? std::string() : saved.error().detail));
    REQUIRE(saved);
    ++save_count;
  }

  void run_worker(std::size_t index) {
    Worker worker{.index = index,
                  .log = log(index),
                  .random = std::mt19937_64(seed_ * 100 + index),
                  .limbo = Limbo(&gate_)};
    for (int batch = 0; batch < batches_of_each; ++batch) {
      {
        const GateEntered inside(gate_, index);
        keyspace::Mutator changes(filters.keyspace, &worker.log, &worker.limbo);
        for (std::uint64_t left = 1 + worker.random() % 8; left > 0; --left) {
          request(worker, changes, batch);
          if (worker.random() % 4 == 0) std::this_thread::yield();
        }
        worker.log.append();
      }
      worker.limbo.end_some();
      static_cast<void>(worker.log.seal_record(true));
    }
  }

  void request(Worker& worker, keyspace::Mutator& changes, int batch) {
    if (worker.log.admit(record_bytes) != Admission::granted) return;
    const std::string name = "key " + std::to_string(worker.random() % 4);
    const DatabaseKey named{.database = 0, .key = name};
    const std::uint64_t kind = worker.random() % 1000;
    if (kind < 4) {
      changes.remove(named);
      return;
    }
    if (kind < 20) {
      changes.set_deadline(named, static_cast<keyspace::Deadline>(1000 + worker.random() % 1000));
      return;
    }
    std::vector<std::string> items(1 + worker.random() % 24);
    // Some items often, so that they have copies beyond those in slots.
    for (std::string& item : items)
      item = std::to_string(worker.random() % 8 == 0 ? worker.random() % 4 : worker.random() % items_max);
    const std::vector<std::string_view> views(items.begin(), items.end());
    auto* const filter = filters.keyspace.find_as<Filter>(named);
    if (filter == nullptr) {
      static_cast<void>(
          writers::create(changes, named,
                          {.options = {.capacity = 64, .capacity_given = worker.random() % 2 == 0, .seed = 5},
                           .items = views},
                          worker.outcomes));
      return;
    }
    // Waves, so that cells grow, split and shrink.
    const bool growing = batch / 200 % 2 == 0;
    const auto condition = kind % 3 == 0 ? Filter::AddIf::absent : Filter::AddIf::always;
    if (worker.random() % 4 < (growing ? 3U : 1U)) {
      static_cast<void>(writers::add(changes, named, *filter, views, condition, worker.outcomes));
    } else {
      bool removed[24];
      static_cast<void>(
          writers::remove(changes, named, *filter, views, std::span(removed).first(views.size())));
    }
  }

  std::uint64_t seed_;
  Gate gate_{worker_count};
};

}  // namespace

TEST_CASE("the journal alone tells each copy of each item, whatever workers did at a time") {
  World world(GENERATE(range<std::uint64_t>(1, 4)));
  world.run(false);
  const State in_memory = state_of(world.filters.keyspace);
  CHECK(world.started(false) == in_memory);
  for (const auto& [key, named] : in_memory) REQUIRE(world.filters.keyspace.remove({.key = key}));
  test::Filters empty;
  test::make_tables(empty.keyspace, {0});
  CHECK(world.filters.keyspace.memory_used() == empty.keyspace.memory_used());
}

TEST_CASE("a save while workers add and remove, and the journal behind it, tell each copy") {
  World world(GENERATE(range<std::uint64_t>(10, 14)));
  world.run(true);
  const State in_memory = state_of(world.filters.keyspace);
  INFO("saves: " << world.save_count);
  CHECK(world.save_count > 0);
  CHECK(world.started(true) == in_memory);
}

}  // namespace cuckoo_threads_property
