// Workers change the same few keys at a time inside the shared gate: they make filters, add to them, let them
// grow, remove them, let them expire, and now and then close the gate. The journal has to tell exactly what
// is in memory in the end: a record that came too early or too late would leave another key, deadline, layer,
// count or bit.
#include <sepal/base/assert.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/bloom/kind/kind.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <numeric>
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
  explicit World(std::uint64_t seed, const bloom::FilterOptions& made = {}, bool threaded = true)
      : seed_(seed), made_(made) {
    storage::JournalOptions options = test::small_journal;
    options.segment_bytes = std::uint64_t{16} << 20;
    options.threaded = threaded;
    REQUIRE(try_open(options, 0, worker_count));
    if (!threaded) journal->work();
  }

  void run() {
    each_worker([this](std::size_t worker) { run_worker(worker); });
  }

  // The workers add the same items to one filter, each in an order of its own. Returns how often each item
  // was new.
  [[nodiscard]] std::vector<int> add_to_one(DatabaseKey named, int item_count) {
    std::vector<int> times(static_cast<std::size_t>(item_count));
    Mutex mutex;
    each_worker([&](std::size_t index) {
      Worker worker = worker_of(index);
      std::vector<int> order(times.size());
      std::iota(order.begin(), order.end(), 0);
      // The workers stay close together, so that they meet at the same items.
      for (std::size_t at = 0; at + 12 < order.size(); ++at)
        std::swap(order[at], order[at + worker.random() % 12]);
      for (std::span<const int> left(order); !left.empty();) {
        const auto some = left.first(std::min<std::size_t>(1 + worker.random() % 12, left.size()));
        left = left.subspan(some.size());
        const std::vector<bool> added = add_numbers(worker, named, some);
        const MutexLock lock(mutex);
        for (std::size_t at = 0; at < some.size(); ++at)
          times[static_cast<std::size_t>(some[at])] += added[at] ? 1 : 0;
      }
    });
    return times;
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
  [[nodiscard]] std::uint64_t growths() const { return growths_; }

 private:
  struct Worker {
    std::size_t index;
    keyspace::WorkerLog& log;
    std::mt19937_64 random;
    Limbo limbo;
    bool known = false;
    std::vector<bloom::Filter::AddOutcome> outcomes{};
  };

  template <class Work>
  static void each_worker(const Work& work) {
    std::vector<std::thread> workers;
    for (std::size_t worker = 0; worker < worker_count; ++worker)
      workers.emplace_back([&work, worker] { work(worker); });
    for (std::thread& worker : workers) worker.join();
  }

  Worker worker_of(std::size_t index) {
    return {.index = index,
            .log = log(index),
            .random = std::mt19937_64(seed_ * 100 + index),
            .limbo = Limbo(&gate_)};
  }

  // A batch of its own.
  std::vector<bool> add_numbers(Worker& worker, DatabaseKey named, std::span<const int> numbers) {
    const std::vector<std::string> items = names_of(numbers);
    const std::vector<std::string_view> views(items.begin(), items.end());
    std::vector<bool> answers;
    while (answers.empty()) {
      {
        const GateEntered inside(gate_, worker.index);
        if (!admitted(worker)) continue;
        keyspace::Mutator changes(filters.keyspace, &worker.log, &worker.limbo);
        SEPAL_ASSERT(add_to(worker, changes, named, views), "the filter is gone");
        for (const auto& outcome : worker.outcomes) answers.push_back(outcome.added);
        worker.log.append();
      }
      worker.limbo.end_some();
      static_cast<void>(worker.log.seal_record(std::exchange(worker.known, false)));
    }
    return answers;
  }

  void run_worker(std::size_t index) {
    Worker worker = worker_of(index);
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

  static std::vector<std::string> names_of(std::span<const int> numbers) {
    std::vector<std::string> names;
    for (const int number : numbers) names.push_back(std::to_string(number));
    return names;
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
          writers::create(changes, named, {.options = made_, .items = views}, worker.outcomes);
      return created || created.error().code == Errc::key_exists;
    }
    return add_to(worker, changes, named, views);
  }

  // As a handler does. Leaves the outcomes. False: the filter is not there.
  bool add_to(Worker& worker, keyspace::Mutator& changes, DatabaseKey named,
              std::span<const std::string_view> items) {
    auto* const filter = filters.keyspace.find_as<bloom::Filter>(named);
    if (filter == nullptr) return false;
    bool added[12];
    if (writers::try_add(changes, named, *filter, items, std::span(added).first(items.size()))) {
      worker.outcomes.clear();
      for (const bool is_new : std::span(added).first(items.size()))
        worker.outcomes.push_back({.added = is_new});
    } else {
      const std::uint32_t layers = filter->layer_count();
      if (!writers::add_growing(changes, named, *filter, items, worker.outcomes)) return false;
      growths_ += filter->layer_count() - layers;
    }
    worker.known = worker.known || !std::ranges::all_of(worker.outcomes, &bloom::Filter::AddOutcome::added);
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
  bloom::FilterOptions made_;
  std::atomic<std::uint64_t> growths_{0};  // inside the shared gate; some of them may count twice
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

// No layer has come before the one below it was full.
void require_full_layers(const bloom::Filter& filter) {
  for (std::uint32_t index = 0; index + 1 < filter.layer_count(); ++index)
    REQUIRE(filter.layer(index).item_count() == filter.layer(index).plan().capacity);
}

}  // namespace

TEST_CASE("many workers change the same keys, and the journal tells exactly what is in memory") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 9));
  const std::uint32_t expansion = 1 + seed % 2;
  INFO("seed " << seed);
  World world(seed, {.capacity = 5, .expansion = expansion});
  world.run();
  CHECK(world.growths() > 0);
  for (const keyspace::CutEntry& entry : world.filters.keyspace.cut())
    require_full_layers(static_cast<const bloom::Filter&>(*entry.value));
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
  World world(1, {}, false);
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

TEST_CASE(
    "a filter that many workers add the same items to grows as often as it must, and no item is new twice") {
  const std::uint32_t expansion = GENERATE(1U, 2U);
  // The layers are small, or large with one shard.
  const std::uint64_t capacity = GENERATE(10U, 4000U);
  CAPTURE(expansion, capacity);
  const bloom::FilterOptions options{
      .error_rate = 1e-12, .capacity = capacity, .expansion = expansion, .seed = 7};
  World world(capacity, options);
  const DatabaseKey key{.key = "k"};
  // The journal has to begin with the filter.
  keyspace::WorkerLog& log = world.log(0);
  while (log.admit(record_bytes) != Admission::granted) std::this_thread::yield();
  keyspace::Mutator changes(world.filters.keyspace, &log);
  const auto created = writers::create(changes, key, options);
  REQUIRE(created);
  log.commit();

  const auto item_count = static_cast<int>(6 * capacity);
  const std::vector<int> times = world.add_to_one(key, item_count);
  CHECK(std::ranges::count(times, 1) == item_count);
  CHECK((*created)->item_count() == times.size());
  require_full_layers(**created);
  CHECK((*created)->layer_count() == (expansion == 1 ? 6U : 3U));
  const State in_memory = state_of(world.filters.keyspace);
  REQUIRE(world.replayed() == in_memory);
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
