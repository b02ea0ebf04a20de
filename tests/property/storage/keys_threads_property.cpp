// Workers change the same few keys at a time inside the shared gate: they make filters, add to them, remove
// them, let them expire, and now and then close the gate. The journal has to tell exactly what is in memory
// in the end: a record that came too early or too late would leave another key, deadline, count or bit.
#include <sepal/base/gate.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "support/journal_fixture.hpp"
#include "support/keys_made.hpp"
#include "support/values.hpp"

namespace keys_threads_property {

namespace {

using namespace sepal;
using keyspace::Admission;
using keyspace::DatabaseKey;
using keyspace::Deadline;

constexpr std::size_t worker_count = 6;  // more than most machines of tests have cores
constexpr int batches_of_each = 1500;
constexpr std::uint64_t record_bytes = std::uint64_t{64} << 10;

// What a key names, as bytes.
struct Named {
  std::vector<std::byte> image;
  Deadline deadline = keyspace::no_deadline;
  friend bool operator==(const Named&, const Named&) = default;
};
using State = std::map<std::string, Named>;

State state_of(const keyspace::Keyspace& keys) {
  State state;
  for (const keyspace::CutEntry& entry : keys.cut())
    state[entry.key] = {.image = value::image_of(*entry.value), .deadline = entry.deadline};
  return state;
}

class World : public test::JournalFixture {
 public:
  explicit World(std::uint64_t seed, bool threaded = true) : seed_(seed) {
    storage::JournalOptions options = test::small_journal;
    options.segment_bytes = std::uint64_t{16} << 20;
    options.threaded = threaded;
    REQUIRE(try_open(options, 0, worker_count));
    if (!threaded) journal->work();
  }

  void run() {
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < worker_count; ++worker)
      workers.emplace_back([this, worker] { run_worker(worker); });
    for (std::thread& worker : workers) worker.join();
  }

  // What a start would find.
  [[nodiscard]] State replayed() {
    journal.reset();
    test::Filters replayed;
    Gate gate(1);
    const auto report = storage::replay_journal(disk, directory, replayed.keyspace, gate, {}, {});
    INFO((report ? std::string() : report.error().detail));
    REQUIRE(report);
    return state_of(replayed.keyspace);
  }

  test::Filters filters;

 private:
  struct Worker {
    std::size_t index;
    keyspace::WorkerLog& log;
    std::mt19937_64 random;
    Limbo limbo;
    bool known = false;
    std::vector<bloom::Filter::AddOutcome> outcomes{};
  };

  void run_worker(std::size_t index) {
    Worker worker{.index = index,
                  .log = log(index),
                  .random = std::mt19937_64(seed_ * 100 + index),
                  .limbo = Limbo(&gate_)};
    for (int batch = 0; batch < batches_of_each; ++batch) {
      bool alone = false;
      {
        const GateEntered inside(gate_, index);
        keyspace::Mutator changes(filters.keyspace, &worker.log, &worker.limbo);
        for (std::uint64_t left = 1 + worker.random() % 8; left > 0 && !alone; --left) {
          alone = !request(worker, changes);
          // Others run while this worker's changes have gathered.
          if (worker.random() % 4 == 0) std::this_thread::yield();
        }
        worker.log.append();
      }
      worker.limbo.end_some();
      static_cast<void>(worker.log.seal_record(std::exchange(worker.known, false)));
      if (alone || worker.random() % 50 == 0) run_alone(worker);
    }
  }

  // Half of them are longer than an entry of the table.
  static std::string any_key(Worker& worker) {
    const std::uint64_t number = worker.random() % 10;
    return "key " + std::to_string(number) +
           (number % 2 == 0 ? "" : " with a name that has memory of its own");
  }

  static std::vector<std::string> any_items(Worker& worker) {
    std::vector<std::string> items(1 + worker.random() % 12);
    for (std::string& item : items) item = std::to_string(worker.random() % 200);
    return items;
  }

  // Waits for room without holding the gate back.
  static bool admitted(Worker& worker) { return worker.log.admit(record_bytes) == Admission::granted; }

  // False: it needs the gate closed.
  bool request(Worker& worker, keyspace::Mutator& changes) {
    if (!admitted(worker)) return true;
    const std::string name = any_key(worker);
    const DatabaseKey named{.database = 0, .key = name};
    const std::uint64_t kind = worker.random() % 100;
    if (kind < 55) return add(worker, changes, named);
    if (kind < 70) {
      changes.remove(named);
    } else if (kind < 90) {
      changes.set_deadline(named, static_cast<Deadline>(1000 + worker.random() % 1000));
    } else if (kind < 95) {
      changes.expire(named, WallTime(std::chrono::milliseconds(1500)));
    } else {
      look_up(worker, named);
    }
    return true;
  }

  void look_up(Worker& worker, DatabaseKey named) {
    const auto* const filter = filters.keyspace.find_as<bloom::Filter>(named);
    if (filter == nullptr) return;
    const std::vector<std::string> items = any_items(worker);
    const std::vector<std::string_view> views(items.begin(), items.end());
    bool present[12];
    filter->contains(views, std::span(present).first(views.size()));
  }

  bool add(Worker& worker, keyspace::Mutator& changes, DatabaseKey named) {
    const std::vector<std::string> items = any_items(worker);
    const std::vector<std::string_view> views(items.begin(), items.end());
    auto* const filter = filters.keyspace.find_as<bloom::Filter>(named);
    if (filter == nullptr) {
      const auto created =
          writers::create(changes, named, {.options = {.capacity = 10}, .items = views}, worker.outcomes);
      return created || created.error().code == Errc::key_exists;
    }
    bool added[12];
    if (!writers::try_add(changes, named, *filter, views, std::span(added).first(views.size()))) return false;
    worker.known = worker.known || std::count(added, added + views.size(), false) != 0;
    return true;
  }

  void run_alone(Worker& worker) {
    const GateClosed closed(gate_);
    if (!admitted(worker)) return;
    keyspace::Mutator changes(filters.keyspace, &worker.log);
    const std::string name = any_key(worker);
    const DatabaseKey named{.database = 0, .key = name};
    if (worker.random() % 20 == 0) {
      static_cast<void>(changes.rename(0, name, any_key(worker)));
    } else if (auto* const filter = filters.keyspace.find_as<bloom::Filter>(named)) {
      const std::vector<std::string> items = any_items(worker);
      writers::add_alone(changes, named, *filter, std::vector<std::string_view>(items.begin(), items.end()),
                         worker.outcomes);
    } else {
      changes.remove(named);
    }
    worker.log.commit();
  }

  std::uint64_t seed_;
  Gate gate_{worker_count};
};

// A log which another worker has append whenever it can.
class Interrupted final : public keyspace::MutationLog {
 public:
  Interrupted(keyspace::WorkerLog& log, std::function<void()> appended)
      : log_(log), appended_(std::move(appended)) {}

  [[nodiscard]] bool recording() const override { return log_.recording(); }
  void begin_add() override { log_.begin_add(); }
  void added_some(DatabaseKey key, std::span<const Fingerprint> items) override {
    log_.added_some(key, items);
  }
  void added(DatabaseKey key, std::span<const Fingerprint> items) override { log_.added(key, items); }
  void wait_for_adds() override { log_.wait_for_adds(); }
  void gather(const keyspace::Mutation& change) override {
    log_.gather(change);
    append();
  }
  void gather_added(DatabaseKey key, std::span<const Fingerprint> items) override {
    log_.gather_added(key, items);
    append();
  }
  void gathered_all(const value::Value& made) override { log_.gathered_all(made); }
  void append() override {
    log_.append();
    appended_();
  }
  void append_others() override { log_.append_others(); }
  void record(const keyspace::Mutation& change) override { log_.record(change); }

 private:
  keyspace::WorkerLog& log_;
  std::function<void()> appended_;
};

}  // namespace

TEST_CASE("many workers change the same keys, and the journal tells exactly what is in memory") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 9));
  INFO("seed " << seed);
  World world(seed);
  world.run();
  const State in_memory = state_of(world.filters.keyspace);
  REQUIRE(world.replayed() == in_memory);
  // Nothing is left over, or counted twice.
  for (const auto& [key, named] : in_memory) REQUIRE(world.filters.keyspace.remove({.key = key}));
  test::Filters empty;
  test::make_tables(empty.keyspace, {0});
  REQUIRE(world.filters.keyspace.memory_used() == empty.keyspace.memory_used());
}

TEST_CASE("a filter is in the record with its deadline or not at all, whoever appends") {
  // Without a thread of the journal the test may look at the disk.
  World world(1, false);
  REQUIRE(world.log(0).admit(record_bytes) == Admission::granted);
  Gate gate(1);
  Limbo limbo(&gate);
  std::size_t appended = 0;
  Interrupted log(world.log(0), [&] {
    ++appended;
    const auto recorded = world.operations();
    const auto count = [&](storage::format::Operation operation) {
      return std::ranges::count(recorded, operation, &test::JournalOperation::operation);
    };
    CHECK(count(storage::format::Operation::made) == 1);
    CHECK(count(storage::format::Operation::expires) == 1);
  });
  keyspace::Mutator changes(world.filters.keyspace, &log, &limbo);
  const std::vector<std::string_view> items{"a", "b"};
  std::vector<bloom::Filter::AddOutcome> outcomes;
  REQUIRE(
      writers::create(changes, {.key = "k"}, {.options = {}, .deadline = 1000, .items = items}, outcomes));
  log.append();
  CHECK(appended > 2);
  const State in_memory = state_of(world.filters.keyspace);
  CHECK(world.replayed() == in_memory);
}

TEST_CASE("a removal is recorded behind the adds that had begun, and later adds give up") {
  World world(1);
  const auto created = writers::create(world.filters.keyspace, {.key = "k"}, {.seed = 7});
  REQUIRE(created);
  const keyspace::DatabaseKey key{.key = "k"};
  keyspace::WorkerLog& adding = world.log(0);
  keyspace::WorkerLog& removing = world.log(1);
  // The journal's thread makes the first segment.
  for (keyspace::WorkerLog* const log : {&adding, &removing})
    while (log->admit(record_bytes) != Admission::granted) std::this_thread::yield();
  // The journal has to begin with the filter.
  adding.record(keyspace::Made{.key = key,
                               .kind = value::Kind::bloom,
                               .head = bloom::made_record(*bloom::Filter::plan({.seed = 7}, test::roomy))});
  adding.commit();
  const value::ValuePtr filter(world.filters.keyspace.find(key));

  adding.begin_add();
  std::thread remover([&] {
    Gate gate(1);
    Limbo limbo(&gate);
    keyspace::Mutator changes(world.filters.keyspace, &removing, &limbo);
    changes.remove(key);
    removing.append();
  });
  while (!filter->held()) std::this_thread::yield();
  // The removal waits, and an add that begins now finds the filter held.
  CHECK(world.filters.keyspace.find(key) != nullptr);
  const std::vector<Fingerprint> item{fingerprint_of("item", 7)};
  adding.added(key, item);
  remover.join();
  CHECK(world.filters.keyspace.find(key) == nullptr);
  const std::vector<std::string_view> late{"late"};
  bool added = false;
  keyspace::Mutator changes(world.filters.keyspace, &adding);
  CHECK_FALSE(writers::try_add(changes, key, static_cast<bloom::Filter&>(*filter), late, {&added, 1}));
  // An item for a key that is not there would end the replay.
  CHECK(world.replayed().empty());
}

}  // namespace keys_threads_property
