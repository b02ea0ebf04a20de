// A journal that is replayed onto a generation that was taken meanwhile, or onto nothing, gives the same
// keys, layers, counts and bits.
#include <sepal/base/gate.hpp>
#include <sepal/base/limbo.hpp>
#include <sepal/bloom/filter/image.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/storage/replay/replay.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/journal_files.hpp"
#include "support/simulated_disk.hpp"
#include "support/storage_fixture.hpp"
#include "support/values.hpp"

namespace replay_property {

using namespace sepal;
using keyspace::DatabaseKey;
using test::Bytes;

namespace {

constexpr std::uint64_t case_count = 200;

// Requests of one client, several in each frame.
class Workload {
 public:
  Workload(std::uint64_t seed, test::JournalFiles& journal)
      : random_(seed), journal_(journal), mutator_(filters_.keyspace, &journal) {}

  void run(std::uint64_t requests) {
    for (std::uint64_t i = 0; i < requests; ++i) {
      request();
      if (chance(2)) end_frame();
    }
    end_frame();
  }

  [[nodiscard]] keyspace::Keyspace& keyspace() { return filters_.keyspace; }
  [[nodiscard]] bool chance(unsigned one_in) { return random_() % one_in == 0; }
  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  void end_frame() {
    journal_.end_frame();
    if (chance(8)) journal_.filler(1 + static_cast<std::uint32_t>(below(100)));
    if (chance(8)) journal_.sync();
    if (chance(50)) journal_.begin_segment();
  }

  [[nodiscard]] std::string some_key() {
    const std::string key = "key " + std::to_string(below(6));
    return chance(3) ? key + std::string(40, 'x') : key;
  }

  void request() {
    const auto database = static_cast<std::uint32_t>(below(2));
    const std::string key = some_key();
    switch (below(40)) {
      case 0: return mutator_.flush(database);
      case 1:
        if (chance(4)) mutator_.flush_all();
        return;
      case 2:
      case 3: static_cast<void>(mutator_.remove({.database = database, .key = key})); return;
      case 4:
      case 5:
        static_cast<void>(mutator_.set_deadline({.database = database, .key = key},
                                                static_cast<keyspace::Deadline>(below(4))));
        return;
      case 6:
      case 7:
      case 8: static_cast<void>(mutator_.rename(database, key, some_key())); return;
      default: return add({.database = database, .key = key});
    }
  }

  void add(DatabaseKey key) {
    bloom::Filter* filter = sepal::test::filter_at(filters_.keyspace, key);
    if (filter == nullptr) {
      const bloom::FilterOptions options{.error_rate = chance(2) ? 0.1 : 0.001,
                                         .capacity = 1 + below(chance(4) ? 2000 : 20),
                                         .expansion = static_cast<std::uint32_t>(below(4)),
                                         .seed = random_()};
      filter = *sepal::writers::create(mutator_, key, options);
    }
    std::vector<std::string> items;
    for (std::uint64_t count = 1 + below(chance(8) ? 100 : 4); count > 0; --count)
      items.push_back("item " + std::to_string(below(500)));
    const std::vector<std::string_view> views(items.begin(), items.end());
    bool added[100];
    if (chance(2) &&
        sepal::writers::try_add(mutator_, key, *filter, views, std::span(added).first(views.size())))
      return;
    std::vector<bloom::Filter::AddOutcome> outcomes;
    if (chance(2)) {
      sepal::writers::add_alone(mutator_, key, *filter, views, outcomes);
      return;
    }
    Limbo at_once(nullptr);
    keyspace::Mutator sharing(filters_.keyspace, mutator_.log(), &at_once);
    REQUIRE(sepal::writers::add_growing(sharing, key, *filter, views, outcomes));
  }

  std::mt19937_64 random_;
  test::JournalFiles& journal_;
  test::Filters filters_;
  keyspace::Mutator mutator_;
};

// An unfinished generation. Filters are taken one after the other while the workload goes on: first their
// layers and counts, at the end their bits.
class Generation {
 public:
  Generation(Workload& workload, std::uint64_t cut) : cut_(cut), entries_(workload.keyspace().cut()) {}

  [[nodiscard]] bool complete() const { return taken_.size() == entries_.size(); }
  void take_one(std::uint64_t position) {
    const keyspace::CutEntry& entry = entries_[taken_.size()];
    taken_.push_back({.position = position, .header = bloom::header_of(*test::held_filter(entry.value))});
  }

  // Fills a keyspace as a load would.
  storage::ReplayStart load_into(keyspace::Keyspace& keyspace) const {
    storage::ReplayStart start{.cut = cut_, .positions = {}};
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const bloom::ImageHeader& header = taken_[i].header;
      auto filter = bloom::Filter::restore(header.options, header.layers, test::roomy);
      REQUIRE(filter);
      const auto layers = test::held_filter(entries_[i].value)->layers();
      for (std::uint32_t layer = 0; layer < header.layers.size(); ++layer)
        (*filter)->fill_bits(layer, 0, test::bits_of(layers[layer]));
      REQUIRE(keyspace.put({.database = entries_[i].database, .key = entries_[i].key}, *filter,
                           entries_[i].deadline));
      start.positions.note({.database = entries_[i].database,
                            .key = entries_[i].key,
                            .value = nullptr,
                            .cut_position = cut_,
                            .journal_position = taken_[i].position},
                           **filter);
    }
    return start;
  }

 private:
  struct Taken {
    std::uint64_t position = 0;
    bloom::ImageHeader header;
  };
  std::uint64_t cut_;
  std::vector<keyspace::CutEntry> entries_;
  std::vector<Taken> taken_;
};

bool same(const std::vector<keyspace::CutEntry>& a, keyspace::Keyspace& b) {
  test::FilterMap map;
  for (auto& entry : b.cut()) map[{entry.database, entry.key}] = test::held_filter(entry.value);
  const auto same_deadline = [&](const keyspace::CutEntry& entry) {
    return b.deadline({.database = entry.database, .key = entry.key}) == entry.deadline;
  };
  return test::same(a, map) && std::ranges::all_of(a, same_deadline);
}

std::string text_of(const Result<storage::ReplayReport>& report) {
  return report ? std::string() : report.error().detail;
}

Result<storage::ReplayReport> replay(test::JournalFiles& journal, keyspace::Keyspace& keyspace,
                                     storage::ReplayStart start = {}) {
  test::SimulatedDisk disk;
  journal.put(disk, "data");
  Gate gate(1);
  return storage::replay_journal(disk, "data", keyspace, gate, std::move(start), {});
}

}  // namespace

TEST_CASE("a replay of a journal onto an empty keyspace makes the recorded keyspace") {
  for (std::uint64_t seed = 0; seed < case_count; ++seed) {
    INFO("seed " << seed);
    test::JournalFiles journal;
    Workload workload(seed, journal);
    workload.run(workload.below(300));

    test::Filters replayed;
    const auto report = replay(journal, replayed.keyspace);
    INFO(text_of(report));
    REQUIRE(report);
    CHECK(report->position == journal.position());
    CHECK(report->cut_bytes == 0);
    CHECK(same(workload.keyspace().cut(), replayed.keyspace));
    CHECK(replayed.keyspace.memory_used() > 0);
  }
}

TEST_CASE("a replay onto a generation that was saved meanwhile counts nothing twice") {
  for (std::uint64_t seed = 0; seed < case_count; ++seed) {
    INFO("seed " << seed);
    test::JournalFiles journal;
    Workload workload(seed, journal);
    workload.run(workload.below(200));
    Generation generation(workload, journal.position());
    while (!generation.complete()) {
      generation.take_one(journal.position());
      if (workload.chance(2)) workload.run(workload.below(20));
    }
    workload.run(workload.below(100));
    test::Filters replayed;
    auto start = generation.load_into(replayed.keyspace);
    workload.run(workload.below(100));

    const auto report = replay(journal, replayed.keyspace, std::move(start));
    INFO(text_of(report));
    REQUIRE(report);
    CHECK(same(workload.keyspace().cut(), replayed.keyspace));
  }
}

}  // namespace replay_property
