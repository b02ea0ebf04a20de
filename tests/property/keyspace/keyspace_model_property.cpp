// A keyspace behaves like a map, for any operations in any order.
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/keys_made.hpp"
#include "support/values.hpp"

namespace keyspace_model_property {

namespace {

using namespace sepal;
using keyspace::database_count;
using keyspace::Deadline;
using keyspace::Keyspace;
using sepal::bloom::FilterPtr;

class CountingHousekeeper final : public sepal::test::FreeingHousekeeper {
 public:
  void dispose(sepal::value::ValuePtr filter) override {
    ++disposed_count;
    filter.reset();
  }
  void dispose_database(std::shared_ptr<const void>) override { ++disposed_count; }
  std::uint64_t disposed_count = 0;
};

// Runs random operations on a keyspace and on maps, and compares the results.
class Trial {
 public:
  Trial(std::uint64_t seed, int name_count)
      : random_(seed), name_count_(name_count), keys_({.seed = seed}, housekeeper_) {}

  void step() {
    const auto database = static_cast<std::uint32_t>(below(3));
    const std::string name = any_name();
    const auto dice = below(1000);
    if (dice < 500) return create(database, name);
    if (dice < 700) return remove(database, name);
    if (dice < 850) return rename(database, name, any_name());
    if (dice < 950) return replace(database, name);
    if (dice < 970) return set_deadline(database, name);
    if (dice < 980) return expire_some();
    if (dice < 998) return grow(database, name);
    flush(database, dice == 999 && below(4) == 0);
  }

  void check_contents() {
    std::uint64_t total = 0;
    for (std::uint32_t database = 0; database < database_count; ++database) {
      const auto& expected = expected_[database];
      total += expected.size();
      REQUIRE(keys_.size(database) == expected.size());
      std::set<std::string> visited;
      keys_.for_each_key(database, [&](std::string_view key) { REQUIRE(visited.emplace(key).second); });
      REQUIRE(visited.size() == expected.size());
      check_deadlines(database);
      for (const auto& [name, filter] : expected) {
        REQUIRE(visited.count(name) == 1);
        REQUIRE(sepal::test::filter_at(keys_, {.database = database, .key = name}) == filter);
      }
      const auto drawn = keys_.random_key(database, random_());
      REQUIRE(drawn.has_value() == !expected.empty());
      if (drawn) REQUIRE(expected.count(*drawn) == 1);
    }
    REQUIRE(keys_.total_size() == total);
    check_cut(total);
  }

  void remove_everything() {
    for (std::uint32_t database = 0; database < database_count; ++database)
      while (!expected_[database].empty()) remove(database, std::string(expected_[database].begin()->first));
    // The tables of databases that have had a key stay.
    CountingHousekeeper housekeeper;
    Keyspace emptied({}, housekeeper);
    sepal::test::make_all_tables(keys_);
    sepal::test::make_all_tables(emptied);
    REQUIRE(keys_.memory_used() == emptied.memory_used());
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::string any_name() {
    const auto number = below(static_cast<std::uint64_t>(name_count_));
    // Every fourth name is too long to be stored without an allocation.
    return number % 4 == 0 ? "a name of some more length " + std::to_string(number) : std::to_string(number);
  }

  void create(std::uint32_t database, const std::string& name) {
    const auto created =
        sepal::writers::create(keys_, {.database = database, .key = name}, {.capacity = 1 + below(20)});
    if (expected_[database].count(name) != 0) {
      REQUIRE_FALSE(created);
      REQUIRE(created.error().code == Errc::key_exists);
      return;
    }
    REQUIRE(created);
    expected_[database][name] = *created;
  }
  void remove(std::uint32_t database, const std::string& name) {
    const auto disposed_before = housekeeper_.disposed_count;
    const bool expected = expected_[database].erase(name) != 0;
    deadlines_[database].erase(name);
    REQUIRE(keys_.remove({.database = database, .key = name}) == expected);
    REQUIRE(housekeeper_.disposed_count == disposed_before + (expected ? 1 : 0));
  }
  void rename(std::uint32_t database, const std::string& from, const std::string& to) {
    auto& expected = expected_[database];
    const auto renamed = keys_.rename(database, from, to);
    REQUIRE(renamed.ok() == (expected.count(from) != 0));
    if (!renamed || from == to) return;
    expected[to] = expected[from];
    expected.erase(from);
    auto& deadlines = deadlines_[database];
    deadlines.erase(to);
    if (auto moved = deadlines.extract(from)) {
      moved.key() = to;
      deadlines.insert(std::move(moved));
    }
  }
  void set_deadline(std::uint32_t database, const std::string& name) {
    const auto deadline = static_cast<Deadline>(below(5) == 0 ? 0 : 1 + below(1000));
    auto& deadlines = deadlines_[database];
    const auto present = deadlines.find(name);
    const bool changes = expected_[database].count(name) != 0 &&
                         deadline != (present == deadlines.end() ? 0 : present->second);
    REQUIRE(keys_.set_deadline({.database = database, .key = name}, deadline) == changes);
    if (!changes) return;
    deadlines.erase(name);
    if (deadline != 0) deadlines[name] = deadline;
  }
  // Removes some expired keys, perhaps all.
  void expire_some() {
    const WallTime now{std::chrono::milliseconds(below(200))};
    const std::size_t count_max = 1 + below(20);
    for (int rounds = 0; rounds < 20; ++rounds) {
      const Deadline earliest = earliest_deadline();
      REQUIRE((keys_.due() == 0) <= (earliest == 0));
      REQUIRE((earliest == 0 || keys_.due() <= earliest));
      std::vector<keyspace::NamedKey> due;
      if (!keys_.collect_due(now, count_max, due)) {
        REQUIRE(due.empty());
        REQUIRE_FALSE(keyspace::is_past(earliest, now));
        return;
      }
      REQUIRE(due.size() <= count_max);
      for (const keyspace::NamedKey& each : due) {
        REQUIRE(keyspace::is_past(deadlines_[each.database].at(each.key), now));
        REQUIRE(keys_.expire({.database = each.database, .key = each.key}, now));
        expected_[each.database].erase(each.key);
        deadlines_[each.database].erase(each.key);
      }
    }
  }
  [[nodiscard]] Deadline earliest_deadline() const {
    Deadline earliest = 0;
    for (const auto& [database, deadlines] : deadlines_)
      for (const auto& [name, deadline] : deadlines)
        if (earliest == 0 || deadline < earliest) earliest = deadline;
    return earliest;
  }
  void check_deadlines(std::uint32_t database) {
    const WallTime now{std::chrono::milliseconds(below(1000))};
    keyspace::DeadlineSum sum = 0;
    std::set<std::string> alive;
    for (const auto& [name, filter] : expected_[database]) {
      const auto found = deadlines_[database].find(name);
      const Deadline deadline = found == deadlines_[database].end() ? 0 : found->second;
      sum += static_cast<std::uint64_t>(deadline);
      REQUIRE(keys_.deadline({.database = database, .key = name}) == deadline);
      const bool past = keyspace::is_past(deadline, now);
      REQUIRE((sepal::test::filter_at(keys_, {.database = database, .key = name}, now) == nullptr) == past);
      if (!past) alive.insert(name);
    }
    REQUIRE(keys_.deadlines(database).count == deadlines_[database].size());
    REQUIRE((keys_.deadlines(database).sum == sum));
    std::set<std::string> scanned;
    for (std::uint64_t cursor = 0, first = 1; first != 0 || cursor != 0; first = 0) {
      auto step = keys_.scan(database, cursor, 1 + below(20), now);
      for (std::string& key : step.keys) REQUIRE(scanned.insert(std::move(key)).second);
      cursor = step.cursor;
    }
    REQUIRE(scanned == alive);
  }
  void replace(std::uint32_t database, const std::string& name) {
    auto filter = bloom::Filter::create({.capacity = 1 + below(20)}, {.bytes_max = 1 << 20});
    REQUIRE(filter);
    REQUIRE(keys_.put({.database = database, .key = name}, *filter));
    expected_[database][name] = filter->get();
    deadlines_[database].erase(name);
  }
  void grow(std::uint32_t database, const std::string& name) {
    bloom::Filter* const filter = sepal::test::filter_at(keys_, {.database = database, .key = name});
    if (filter == nullptr) return;
    const auto others_bytes = keys_.memory_used() - filter->byte_count();
    for (int item = 0; item < 30; ++item)
      sepal::writers::add_alone(keys_, database, *filter, std::to_string(item));
    REQUIRE(keys_.memory_used() == others_bytes + filter->byte_count());
  }
  void flush(std::uint32_t database, bool all) {
    if (all) {
      keys_.flush_all();
      expected_.clear();
      deadlines_.clear();
    } else {
      keys_.flush(database);
      expected_[database].clear();
      deadlines_[database].clear();
    }
  }
  void check_cut(std::uint64_t total) {
    const auto cut = keys_.cut();
    REQUIRE(cut.size() == total);
    for (const auto& entry : cut) {
      const auto found = expected_[entry.database].find(entry.key);
      REQUIRE(found != expected_[entry.database].end());
      REQUIRE(found->second == entry.value.get());
      REQUIRE(entry.deadline == keys_.deadline({.database = entry.database, .key = entry.key}));
    }
  }

  std::mt19937_64 random_;
  int name_count_;
  CountingHousekeeper housekeeper_;
  Keyspace keys_;
  std::map<std::uint32_t, std::map<std::string, bloom::Filter*>> expected_;
  std::map<std::uint32_t, std::map<std::string, Deadline>> deadlines_;  // of keys that have one
};

}  // namespace

TEST_CASE("a keyspace answers like a model made of maps") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(1, 9));
  const int name_count = GENERATE(5, 300, 5000);
  INFO("seed " << seed << ", names " << name_count);
  Trial trial(seed, name_count);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < name_count; ++i) trial.step();
    trial.check_contents();
  }
  trial.remove_everything();
  trial.check_contents();
}

}  // namespace keyspace_model_property
