#include <sepal/bloom/filter/image.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/value/image.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/recording_journal.hpp"
#include "support/values.hpp"

namespace mutator_test {

namespace {

using namespace sepal;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mutator;
using namespace test;

struct Fixture {
  sepal::test::FreeingHousekeeper housekeeper;
  Keyspace keys{{.layers_max = 40}, housekeeper};
  RecordingJournal journal{1};
  Mutator mutator{keys, &journal.log(0)};

  std::vector<Recorded> told() {
    journal.log(0).commit();
    return journal.operations();
  }
  [[nodiscard]] std::uint64_t told_bytes() {
    std::uint64_t bytes = 0;
    for (const Recorded& recorded : told()) bytes += recorded.bytes();
    return bytes;
  }
};

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < count; ++i) items.push_back("item " + std::to_string(i));
  return items;
}

TEST_CASE("the log gets no record of a call that changes nothing") {
  Fixture fixture;
  fixture.mutator.flush(0);
  fixture.mutator.flush_all();
  CHECK_FALSE(fixture.mutator.remove({.database = 0, .key = "a"}));
  CHECK_FALSE(fixture.mutator.rename(0, "a", "b"));
  CHECK(fixture.told().empty());

  REQUIRE(sepal::writers::create(fixture.mutator, {.database = 0, .key = "a"}, {}));
  CHECK_FALSE(sepal::writers::create(fixture.mutator, {.database = 0, .key = "a"}, {}));
  CHECK(fixture.mutator.rename(0, "a", "a"));
  fixture.mutator.flush(1);
  CHECK(fixture.told().size() == 1);
}

TEST_CASE("a request for a key makes no tables for a database without keys") {
  Fixture fixture;
  const std::uint64_t bytes = fixture.keys.memory_used();
  const DatabaseKey key{.database = 3, .key = "a"};
  Limbo limbo(nullptr);
  for (Limbo* const shared : {static_cast<Limbo*>(nullptr), &limbo}) {
    Mutator mutator(fixture.keys, &fixture.journal.log(0), shared);
    CHECK_FALSE(mutator.remove(key));
    CHECK_FALSE(mutator.expire(key, WallTime::max()));
    CHECK_FALSE(mutator.set_deadline(key, 9));
    CHECK_FALSE(mutator.set_deadline(key, keyspace::no_deadline, 9));
  }
  CHECK_FALSE(fixture.mutator.rename(3, "a", "b"));
  CHECK_FALSE(fixture.mutator.move(key, 4));
  CHECK(fixture.keys.memory_used() == bytes);
}

TEST_CASE("the log gets an adopted filter's image, or the number of its file") {
  Fixture fixture;
  const DatabaseKey key{.database = 2, .key = "a"};
  REQUIRE(sepal::writers::create(fixture.mutator, key, {}));
  const auto made = bloom::Filter::create({.capacity = 10, .seed = 3}, {.bytes_max = 1 << 20});
  REQUIRE(fixture.mutator.adopt(key, *made, 55));
  CHECK(sepal::test::filter_at(fixture.keys, key) == made->get());
  CHECK(fixture.keys.deadline(key) == 55);
  const auto other = bloom::Filter::create({.capacity = 10, .seed = 4}, {.bytes_max = 1 << 20});
  REQUIRE(fixture.mutator.adopt(key, *other, keyspace::no_deadline, {.number = 7, .seal = 8}));
  CHECK(fixture.keys.deadline(key) == keyspace::no_deadline);
  const auto told = fixture.told();
  REQUIRE(told.size() == 3);
  CHECK(told[1].kind == Recorded::Kind::adopted);
  CHECK(told[1].deadline == 55);
  const auto image = value::value_of(told[1].image, {.bytes_max = 1 << 20});
  REQUIRE(image);
  CHECK(value::as<bloom::Filter>(**image).options() == (*made)->options());
  CHECK(told[1].bytes() <= keyspace::record_bytes_of_adoption(key.key.size()));
  CHECK(told[2].image.empty());
  CHECK(told[2].file.number == 7);
  CHECK(told[2].file.seal == 8);
}

TEST_CASE("a filter that does not fit is not recorded, and changes nothing") {
  Fixture fixture;
  const DatabaseKey key{.database = 2, .key = "a"};
  REQUIRE(sepal::writers::create(fixture.mutator, key, {}));
  const bloom::Filter* const before = sepal::test::filter_at(fixture.keys, key);
  fixture.keys.set_memory_max(1000);
  const auto made = bloom::Filter::create({.capacity = 10'000, .seed = 3}, {.bytes_max = 1 << 20});
  const auto refused = fixture.mutator.adopt(key, *made, 55);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::memory_limit);
  CHECK(sepal::test::filter_at(fixture.keys, key) == before);
  CHECK(fixture.told().size() == 1);
}

TEST_CASE("the log gets a new filter's options and first layer") {
  Fixture fixture;
  const auto created = sepal::writers::create(fixture.mutator, {.database = 2, .key = "a"},
                                              {.error_rate = 0.001, .capacity = 500, .seed = 9});
  REQUIRE(created);
  const auto told = fixture.told();
  REQUIRE(told.size() == 1);
  CHECK(told[0].kind == Recorded::Kind::created);
  CHECK(told[0].database == 2);
  CHECK(told[0].key == "a");
  CHECK(told[0].options == (*created)->options());
  CHECK(told[0].layer == (*created)->newest_layer().plan());
}

TEST_CASE("the log gets a new layer after the earlier adds, and before adds to that layer") {
  Fixture fixture;
  const DatabaseKey key{.database = 0, .key = "a"};
  const auto created =
      sepal::writers::create(fixture.mutator, key, {.error_rate = 1e-9, .capacity = 3, .seed = 1});
  REQUIRE(created);
  std::vector<bloom::Filter::AddOutcome> outcomes;
  const std::vector<std::string_view> items{"1", "2", "2", "3", "4", "5"};
  sepal::writers::add_alone(fixture.mutator, key, **created, items, outcomes);
  CHECK(outcomes.size() == items.size());
  const auto told = fixture.told();
  REQUIRE(told.size() == 4);
  CHECK(told[1].fingerprints ==
        std::vector{fingerprint_of("1", 1), fingerprint_of("2", 1), fingerprint_of("3", 1)});
  CHECK(told[2].kind == Recorded::Kind::grown);
  CHECK(told[2].layer == (*created)->newest_layer().plan());
  CHECK(told[3].fingerprints == std::vector{fingerprint_of("4", 1), fingerprint_of("5", 1)});
}

TEST_CASE("an add with the gate closed ends at the first item that a full filter refuses") {
  Fixture fixture;
  const DatabaseKey key{.database = 0, .key = "a"};
  const auto created =
      sepal::writers::create(fixture.mutator, key, {.error_rate = 1e-9, .capacity = 2, .expansion = 0});
  REQUIRE(created);
  std::vector<bloom::Filter::AddOutcome> outcomes;
  const std::vector<std::string_view> items{"1", "2", "1", "3", "4"};
  sepal::writers::add_alone(fixture.mutator, key, **created, items, outcomes);
  REQUIRE(outcomes.size() == 4);
  CHECK(outcomes[2].refusal == bloom::Filter::Refusal::none);
  CHECK(outcomes[3].refusal == bloom::Filter::Refusal::full);
  CHECK(fixture.told().size() == 2);
}

TEST_CASE("a request records no more than was reserved") {
  const std::size_t item_count = GENERATE(0, 1, 2, 31, 32, 33, 100, 2000, 5000);
  const std::uint32_t expansion = GENERATE(1, 2);
  CAPTURE(item_count, expansion);
  const std::string name(GENERATE(1, 1000), 'k');
  const DatabaseKey key{.database = 0, .key = name};
  const std::vector<std::string> items = numbered(item_count);
  const std::vector<std::string_view> views(items.begin(), items.end());
  const auto added = std::make_unique<bool[]>(item_count);

  Fixture growing;
  const auto created = sepal::writers::create(growing.mutator, key,
                                              {.error_rate = 1e-9, .capacity = 1, .expansion = expansion});
  REQUIRE(created);
  std::vector<bloom::Filter::AddOutcome> outcomes;
  sepal::writers::add_alone(growing.mutator, key, **created, views, outcomes);
  CHECK(growing.told_bytes() <= sepal::writers::record_bytes_of_adds_alone(name.size(), item_count, 40));

  Fixture roomy;
  const auto large = sepal::writers::create(roomy.keys, key, {.error_rate = 1e-9, .capacity = 10'000});
  REQUIRE(large);
  REQUIRE(sepal::writers::try_add(roomy.mutator, key, **large, views, {added.get(), item_count}));
  CHECK(roomy.told_bytes() <= sepal::writers::record_bytes_of_adds(name.size(), item_count));

  Fixture keys;
  for (const auto& item : items) REQUIRE(sepal::writers::create(keys.keys, {.database = 0, .key = item}, {}));
  for (const auto& item : items) REQUIRE(keys.mutator.remove({.database = 0, .key = item}));
  CHECK(keys.told_bytes() <= keyspace::record_bytes_of_keys(views));
}

TEST_CASE("without a log the changes are made, and nothing is recorded") {
  Fixture fixture;
  Mutator silent(fixture.keys, nullptr);
  const DatabaseKey key{.database = 0, .key = "a"};
  const auto created = sepal::writers::create(silent, key, {.capacity = 10, .expansion = 1});
  REQUIRE(created);
  const std::string_view item = "1";
  bool added = false;
  CHECK(sepal::writers::try_add(silent, key, **created, {&item, 1}, {&added, 1}));
  CHECK(added);
  CHECK(silent.rename(0, "a", "b"));
  CHECK(silent.remove({.database = 0, .key = "b"}));
  CHECK(fixture.told().empty());
}

}  // namespace

}  // namespace mutator_test
