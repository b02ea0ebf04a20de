// A log's records, applied in order to an empty model, give the same keys, layers, counts and bits.
#include <sepal/base/gate.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "bloom/plan/probe.hpp"
#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/recording_journal.hpp"
#include "support/values.hpp"

namespace recording_property {

namespace {

using namespace sepal;
using keyspace::database_count;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;
using namespace test;

// A filter model with plain arithmetic.
struct ModelLayer {
  bloom::LayerPlan plan;
  std::uint64_t item_count = 0;
  std::vector<std::uint64_t> words;
};

struct ModelFilter {
  bloom::FilterOptions options;
  std::vector<ModelLayer> layers;
  std::set<std::pair<std::uint64_t, std::uint64_t>> told;  // fingerprints
  keyspace::Deadline deadline = keyspace::no_deadline;
};

void append_layer(ModelFilter& filter, const bloom::LayerPlan& plan) {
  filter.layers.push_back(
      {.plan = plan, .item_count = 0, .words = std::vector<std::uint64_t>(plan.byte_count() / 8)});
}

void add(ModelFilter& filter, const Fingerprint& fingerprint) {
  // Each new item is recorded exactly once.
  REQUIRE(filter.told.emplace(fingerprint.low, fingerprint.high).second);
  ModelLayer& newest = filter.layers.back();
  ++newest.item_count;
  const std::uint64_t block = bloom::block_of(fingerprint, newest.plan.block_count);
  for (std::uint32_t probe = 0; probe < newest.plan.probe_count; ++probe) {
    const std::uint64_t bit =
        block * newest.plan.block_bits + bloom::position_of(fingerprint, probe, newest.plan.block_bits);
    newest.words[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

void adopt(ModelFilter& filter, const Recorded& operation) {
  const auto made = value::value_of(operation.image, {.bytes_max = 1 << 30, .layers_max = 1000});
  REQUIRE(made);
  const auto& image = value::as<bloom::Filter>(**made);
  filter = {.options = image.options(), .layers = {}, .told = {}, .deadline = operation.deadline};
  REQUIRE(image.item_count() == 0);
  for (const bloom::LayerView& layer : image.layers()) append_layer(filter, layer.plan());
}

class Model {
 public:
  explicit Model(const std::vector<Recorded>& operations) {
    for (const Recorded& operation : operations) apply(operation);
  }

  void check_same_as(const Keyspace& keys) const {
    for (std::uint32_t database = 0; database < database_count; ++database) {
      std::set<std::string> names;
      keys.for_each_key(database, [&](std::string_view key) { names.emplace(key); });
      std::set<std::string> expected;
      for (const auto& [key, filter] : databases_[database]) expected.insert(key);
      REQUIRE(names == expected);
      for (const auto& [key, filter] : databases_[database])
        check(keys, {.database = database, .key = key}, filter);
    }
  }

 private:
  void apply(const Recorded& operation) {
    auto& database = databases_[operation.database];
    switch (operation.kind) {
      case Recorded::Kind::created: {
        ModelFilter& created = database[operation.key];
        REQUIRE(created.layers.empty());
        created.options = operation.options;
        return append_layer(created, operation.layer);
      }
      case Recorded::Kind::added:
        for (const Fingerprint& fingerprint : operation.fingerprints)
          add(database.at(operation.key), fingerprint);
        return;
      case Recorded::Kind::grown: return append_layer(database.at(operation.key), operation.layer);
      case Recorded::Kind::removed: REQUIRE(database.erase(operation.key) == 1); return;
      case Recorded::Kind::expires: {
        // A call that changes nothing is not recorded.
        ModelFilter& filter = database.at(operation.key);
        REQUIRE(std::exchange(filter.deadline, operation.deadline) != operation.deadline);
        return;
      }
      case Recorded::Kind::renamed: {
        auto moved = database.extract(operation.key);
        REQUIRE_FALSE(moved.empty());
        database[operation.target] = std::move(moved.mapped());
        return;
      }
      case Recorded::Kind::adopted: return adopt(database[operation.key], operation);
      case Recorded::Kind::moved: {
        auto moved = database.extract(operation.key);
        REQUIRE_FALSE(moved.empty());
        REQUIRE(databases_[operation.other].insert(std::move(moved)).inserted);
        return;
      }
      case Recorded::Kind::swapped: return database.swap(databases_[operation.other]);
      case Recorded::Kind::written:
      case Recorded::Kind::cuckoo_created:
      case Recorded::Kind::cuckoo_changed:
      case Recorded::Kind::redis_cuckoo_created:
      case Recorded::Kind::redis_cuckoo_changed:
      case Recorded::Kind::remade: FAIL("keys have Bloom filters alone here"); return;
      case Recorded::Kind::mirrored:
        // Adds to a target are recorded under the target's key.
        return;
      case Recorded::Kind::flushed: REQUIRE_FALSE(database.empty()); return database.clear();
      case Recorded::Kind::flushed_all:
        for (auto& each : databases_) each.clear();
        return;
    }
  }

  static void check(const Keyspace& keys, DatabaseKey key, const ModelFilter& expected) {
    REQUIRE(keys.deadline(key) == expected.deadline);
    const bloom::Filter& filter = *sepal::test::filter_at(keys, key);
    REQUIRE(filter.options() == expected.options);
    REQUIRE(filter.item_count() == expected.told.size());
    const auto layers = filter.layers();
    REQUIRE(layers.size() == expected.layers.size());
    for (std::size_t index = 0; index < layers.size(); ++index) {
      const ModelLayer& layer = expected.layers[index];
      REQUIRE(layers[index].plan() == layer.plan);
      REQUIRE(layers[index].item_count() == layer.item_count);
      std::vector<std::uint64_t> words(layer.words.size());
      layers[index].copy_bits(0, std::as_writable_bytes(std::span(words)));
      REQUIRE(words == layer.words);
    }
  }

  std::map<std::string, ModelFilter> databases_[database_count];
};

constexpr std::size_t names_max = 12;
constexpr std::uint32_t databases_used = 3;

// A worker that makes random changes like requests do.
class Worker {
 public:
  Worker(Keyspace& keys, Gate& gate, RecordingJournal& journal, std::size_t side, std::uint64_t seed)
      : keys_(keys),
        gate_(gate),
        log_(journal.log(side)),
        side_(side),
        random_(seed * 100 + side),
        mutator_(keys, &log_) {}

  void step() {
    const DatabaseKey key{.database = static_cast<std::uint32_t>(below(databases_used)), .key = any_name()};
    const auto dice = below(1000);
    if (dice < 920) return add(key);
    const GateClosed closed(gate_);
    if (dice < 940) {
      if (!mutator_.begin_mirror(key.database, key.key, any_name())) mutator_.end_mirror(key);
    } else if (dice < 950) {
      mutator_.remove(key);
    } else if (dice < 955) {
      mutator_.expire(key, WallTime(std::chrono::milliseconds(below(100))));
    } else if (dice < 970) {
      mutator_.set_deadline(key, static_cast<keyspace::Deadline>(below(4) * 30));
    } else if (dice < 985) {
      static_cast<void>(mutator_.rename(key.database, key.key, any_name()));
    } else if (dice < 988) {
      const auto made = bloom::Filter::create({.error_rate = 1e-9, .capacity = 1 + below(500), .seed = 1},
                                              {.bytes_max = 1 << 20});
      static_cast<void>(mutator_.adopt(key, *made, static_cast<keyspace::Deadline>(below(4) * 30)));
    } else if (dice < 990) {
      static_cast<void>(mutator_.move(key, static_cast<std::uint32_t>(below(databases_used))));
    } else if (dice < 993) {
      mutator_.swap_databases(key.database, static_cast<std::uint32_t>(below(databases_used)));
    } else if (dice < 995) {
      mutator_.flush(key.database);
    } else {
      mutator_.flush_all();
    }
    log_.commit();
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::string_view any_name() {
    static constexpr std::string_view names[names_max] = {
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "a longer name than others"};
    return names[below(names_max)];
  }

  void add(DatabaseKey key) {
    items_.clear();
    // Often the items of another worker, so that both add them at the same time.
    const std::size_t count = below(20) == 0 ? 1 + below(3000) : 1 + below(8);
    const std::uint64_t first = below(4000);
    for (std::size_t i = 0; i < count; ++i) items_.push_back("item " + std::to_string(first + i));
    const std::vector<std::string_view> views(items_.begin(), items_.end());
    const auto added = std::make_unique<bool[]>(count);
    {
      gate_.enter(side_);
      bloom::Filter* const filter = sepal::test::filter_at(keys_, key);
      const bool done =
          filter != nullptr && sepal::writers::try_add(mutator_, key, *filter, views, {added.get(), count});
      gate_.leave(side_);
      if (done) return;
    }
    const GateClosed closed(gate_);
    bloom::Filter* filter = sepal::test::filter_at(keys_, key);
    if (filter == nullptr) {
      const sepal::writers::Creation creation{
          .options = {.error_rate = 1e-9,
                      .capacity = 1 + below(2000),
                      .expansion = static_cast<std::uint32_t>(1 + below(3)),
                      .seed = 1},
          .deadline = static_cast<keyspace::Deadline>(below(4) * 30),
          .items = {},
          .now = {}};
      const auto created = sepal::writers::create(mutator_, key, creation, outcomes_);
      filter = *created;
    }
    sepal::writers::add_alone(mutator_, key, *filter, views, outcomes_);
    log_.commit();
  }

  Keyspace& keys_;
  Gate& gate_;
  keyspace::WorkerLog& log_;
  std::size_t side_;
  std::mt19937_64 random_;
  Mutator mutator_;
  std::vector<std::string> items_;
  std::vector<bloom::Filter::AddOutcome> outcomes_;
};

}  // namespace

TEST_CASE("a replay of the recorded changes makes the same keyspace") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 9));
  CAPTURE(seed);
  sepal::test::FreeingHousekeeper housekeeper;
  Keyspace keys({.layers_max = 1000}, housekeeper);
  Gate gate(1);
  RecordingJournal journal(1);
  Worker worker(keys, gate, journal, 0, seed);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 300; ++i) worker.step();
    Model(journal.operations()).check_same_as(keys);
  }
  CHECK_FALSE(journal.misused);
}

TEST_CASE("a replay of changes that several threads recorded makes the same keyspace") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 4));
  CAPTURE(seed);
  constexpr std::size_t thread_count = 4;
  sepal::test::FreeingHousekeeper housekeeper;
  Keyspace keys({.layers_max = 1000}, housekeeper);
  Gate gate(thread_count);
  RecordingJournal journal(thread_count);
  std::vector<std::thread> threads;
  for (std::size_t side = 0; side < thread_count; ++side) {
    threads.emplace_back([&, side] {
      Worker worker(keys, gate, journal, side, seed);
      for (int i = 0; i < 400; ++i) worker.step();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Model(journal.operations()).check_same_as(keys);
  CHECK_FALSE(journal.misused);
}

}  // namespace recording_property
