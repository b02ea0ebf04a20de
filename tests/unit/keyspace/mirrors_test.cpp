#include <sepal/keyspace/mirrors.hpp>
#include <sepal/keyspace/mutator.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/recording_journal.hpp"
#include "support/values.hpp"

namespace mirrors_test {

namespace {

using namespace sepal;
using bloom::Filter;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::Mirror;
using keyspace::MirrorState;
using keyspace::Mutator;
using namespace test;

constexpr DatabaseKey source{.database = 0, .key = "s"};
constexpr DatabaseKey target{.database = 0, .key = "t"};
constexpr bloom::FilterOptions precise{.error_rate = 1e-9, .capacity = 1000, .seed = 1};
// Options of the target, with another seed, rate and capacity.
constexpr bloom::FilterOptions otherwise{.error_rate = 1e-6, .capacity = 500, .seed = 2};

struct Fixture {
  sepal::test::FreeingHousekeeper housekeeper;
  Keyspace keys{{.layers_max = 3}, housekeeper};
  RecordingJournal journal{1};
  Mutator mutator{keys, &journal.log(0)};
  std::vector<Filter::AddOutcome> outcomes;

  explicit Fixture(const bloom::FilterOptions& of_source = precise,
                   const bloom::FilterOptions& of_target = otherwise) {
    REQUIRE(sepal::writers::create(mutator, source, of_source));
    REQUIRE(sepal::writers::create(mutator, target, of_target));
    REQUIRE(sepal::writers::create(mutator, {.database = 0, .key = "u"}, precise));
  }
  void mirror() { REQUIRE(mutator.begin_mirror(0, "s", "t")); }

  [[nodiscard]] Filter& filter(DatabaseKey key) const { return *sepal::test::filter_at(keys, key); }
  [[nodiscard]] bool has(DatabaseKey key, std::string_view item) const {
    bool present = false;
    filter(key).contains({&item, 1}, {&present, 1});
    return present;
  }
  // Adds like a request under the shared gate.
  bool try_add(DatabaseKey key, const std::vector<std::string_view>& items) {
    const auto added = std::make_unique<bool[]>(items.size());
    return sepal::writers::try_add(mutator, key, filter(key), items, {added.get(), items.size()});
  }
  std::size_t add_alone(DatabaseKey key, const std::vector<std::string_view>& items) {
    return sepal::writers::add_alone(mutator, key, filter(key), items, outcomes);
  }
  [[nodiscard]] std::size_t refused() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        outcomes, [](const auto& outcome) { return outcome.refusal != Filter::Refusal::none; }));
  }
  [[nodiscard]] MirrorState state() const {
    const auto mirrors = keys.mirrors().all();
    return mirrors.empty() ? MirrorState::off : mirrors[0].state;
  }
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

std::vector<std::string_view> views_of(const std::vector<std::string>& items) {
  return {items.begin(), items.end()};
}

}  // namespace

TEST_CASE("items are added to the target, new to the source or not") {
  Fixture fixture;
  REQUIRE(fixture.try_add(source, {"before", "known"}));
  fixture.mirror();
  CHECK(fixture.try_add(source, {"a"}));
  CHECK(fixture.try_add(source, {"b", "known", "c"}));
  fixture.add_alone(source, {"d", "a", "e"});
  for (const char* item : {"a", "b", "c", "d", "e", "known"}) CHECK(fixture.has(target, item));
  CHECK_FALSE(fixture.has(target, "before"));
  CHECK(fixture.filter(source).item_count() == 7);
  CHECK(fixture.filter(target).item_count() == 6);
  CHECK(fixture.keys.mirrors().all()[0].items_before == 2);
}

TEST_CASE("a target's items are not added to its source, and other filters' items to neither") {
  Fixture fixture;
  fixture.mirror();
  CHECK(fixture.try_add(target, {"a"}));
  CHECK(fixture.try_add({.database = 0, .key = "u"}, {"b"}));
  fixture.add_alone(target, {"c"});
  CHECK(fixture.filter(source).item_count() == 0);
  CHECK(fixture.filter(target).item_count() == 2);
}

TEST_CASE("the target's record of an item comes before the source's, whichever filter grows") {
  Fixture fixture({.error_rate = 1e-9, .capacity = 40, .expansion = 2, .seed = 1},
                  {.error_rate = 1e-9, .capacity = 25, .expansion = 3, .seed = 1});
  fixture.mirror();
  const auto items = numbered(200);
  REQUIRE(fixture.try_add(source, views_of(numbered(10))));
  REQUIRE_FALSE(fixture.try_add(source, views_of(items)));
  fixture.add_alone(source, views_of(items));
  CHECK(fixture.refused() == 0);
  std::vector<Fingerprint> in_target;
  for (const Recorded& recorded : fixture.told()) {
    if (recorded.kind != Recorded::Kind::added) continue;
    for (const Fingerprint& fingerprint : recorded.fingerprints) {
      if (recorded.key == "t") in_target.push_back(fingerprint);
      if (recorded.key == "s") REQUIRE(std::ranges::count(in_target, fingerprint) == 1);
    }
  }
  CHECK(in_target.size() == items.size());
  CHECK(fixture.filter(target).layer_count() > 1);
  CHECK_FALSE(fixture.journal.misused);
}

TEST_CASE("a target that refuses an item breaks the mirror, and adds to the source go on") {
  const auto items = numbered(30);
  struct Case {
    bloom::FilterOptions of_target;
    MirrorState state;
  };
  const auto given = GENERATE(
      Case{{.error_rate = 1e-9, .capacity = 20, .expansion = 0, .seed = 3}, MirrorState::full},
      Case{{.error_rate = 1e-9, .capacity = 7, .expansion = 1, .seed = 3}, MirrorState::layer_limit});
  Fixture fixture(precise, given.of_target);
  fixture.mirror();
  CHECK_FALSE(fixture.try_add(source, views_of(items)));
  fixture.add_alone(source, views_of(items));
  CHECK(fixture.outcomes.size() == items.size());
  CHECK(fixture.refused() == 0);
  CHECK(fixture.state() == given.state);
  CHECK(fixture.keys.mirrors().broken_count() == 1);
  CHECK(fixture.told().back().key == "s");
  const auto told = fixture.told();
  const auto broken = std::ranges::find_if(
      told, [&](const Recorded& recorded) { return recorded.mirror.state == given.state; });
  REQUIRE(broken != told.end());
  CHECK(broken->kind == Recorded::Kind::mirrored);
  // From then on, no items are added to the target.
  const std::uint64_t count = fixture.filter(target).item_count();
  CHECK(fixture.try_add(source, {"more"}));
  CHECK(fixture.filter(target).item_count() == count);
}

TEST_CASE("a target that gets no memory breaks the mirror") {
  Fixture fixture({.error_rate = 1e-9, .capacity = 10'000, .seed = 1},
                  {.error_rate = 1e-9, .capacity = 100, .expansion = 1000, .seed = 1});
  fixture.mirror();
  fixture.keys.set_memory_max(fixture.keys.memory_used() + 1000);
  fixture.add_alone(source, views_of(numbered(200)));
  CHECK(fixture.refused() == 0);
  CHECK(fixture.state() == MirrorState::no_memory);
}

TEST_CASE("the target has every item that its source refuses") {
  const bool scales = GENERATE(true, false);
  // The source that scales may have 3 layers, of 5 items each.
  Fixture fixture(
      {.error_rate = 1e-9, .capacity = scales ? 5U : 15U, .expansion = scales ? 1U : 0U, .seed = 1});
  fixture.mirror();
  const auto items = numbered(20);
  REQUIRE_FALSE(fixture.try_add(source, views_of(items)));
  CHECK(fixture.add_alone(source, views_of(items)) == 20);
  CHECK(fixture.outcomes.size() == 20);
  CHECK(fixture.refused() == 5);
  CHECK(fixture.outcomes.back().refusal == (scales ? Filter::Refusal::layer_limit : Filter::Refusal::full));
  CHECK(fixture.filter(source).item_count() == 15);
  CHECK(fixture.filter(target).item_count() == 20);
  CHECK(fixture.state() == MirrorState::whole);
  // A batch of items that the target knows may be added, because none of them can be new.
  CHECK(sepal::writers::try_mirror(fixture.mutator, fixture.filter(source), views_of(numbered(20))));
  CHECK(fixture.filter(target).item_count() == 20);
  CHECK(fixture.mutator.target_knew());
}

TEST_CASE("a source without memory gives its target what it refuses") {
  Fixture fixture({.error_rate = 1e-9, .capacity = 100, .expansion = 1000, .seed = 1},
                  {.error_rate = 1e-9, .capacity = 10'000, .seed = 1});
  fixture.mirror();
  fixture.keys.set_memory_max(fixture.keys.memory_used() + 1000);
  CHECK(fixture.add_alone(source, views_of(numbered(200))) == 200);
  CHECK(fixture.refused() == 100);
  CHECK(fixture.filter(target).item_count() == 200);
  CHECK(fixture.state() == MirrorState::whole);
}

TEST_CASE("a full source whose mirror breaks stops at the first item that nothing takes") {
  Fixture fixture({.error_rate = 1e-9, .capacity = 5, .expansion = 0, .seed = 1},
                  {.error_rate = 1e-9, .capacity = 7, .expansion = 0, .seed = 2});
  fixture.mirror();
  CHECK(fixture.add_alone(source, views_of(numbered(10))) == 7);
  CHECK(fixture.outcomes.size() == 8);
  CHECK(fixture.state() == MirrorState::full);
}

TEST_CASE("a mirror ends when either end is removed, replaced or flushed") {
  Fixture fixture;
  fixture.mirror();
  SECTION("removed source") {
    fixture.mutator.remove(source);
  }
  SECTION("removed target") {
    fixture.mutator.remove(target);
  }
  SECTION("expired target") {
    fixture.mutator.set_deadline(target, 1);
    CHECK(fixture.mutator.expire(target, WallTime(std::chrono::milliseconds(2))));
  }
  SECTION("source replaced by its target") {
    REQUIRE(fixture.mutator.rename(0, "t", "s"));
  }
  SECTION("target replaced by its source") {
    REQUIRE(fixture.mutator.rename(0, "s", "t"));
  }
  SECTION("source replaced by another") {
    REQUIRE(fixture.mutator.rename(0, "u", "s"));
  }
  SECTION("target replaced by another") {
    REQUIRE(fixture.mutator.rename(0, "u", "t"));
  }
  SECTION("source put again") {
    REQUIRE(fixture.keys.put(source, *Filter::create(precise, fixture.keys.value_limits())));
  }
  SECTION("target put again") {
    REQUIRE(fixture.keys.put(target, *Filter::create(precise, fixture.keys.value_limits())));
  }
  SECTION("source moved to another database") {
    REQUIRE(fixture.mutator.move(source, 1));
  }
  SECTION("target moved to another database") {
    REQUIRE(fixture.mutator.move(target, 1));
  }
  SECTION("flushed") {
    fixture.mutator.flush(0);
  }
  SECTION("all flushed") {
    fixture.mutator.flush_all();
  }
  SECTION("ended") {
    CHECK(fixture.mutator.end_mirror(source));
  }
  CHECK(fixture.keys.mirrors().empty());
  CHECK(fixture.keys.mirrors().key_bytes_max() == 0);
  CHECK_FALSE(fixture.mutator.end_mirror(source));
}

TEST_CASE("a mirror stays as long as both filters exist, under any keys") {
  Fixture fixture;
  fixture.mirror();
  fixture.mutator.flush(1);
  fixture.mutator.remove({.database = 0, .key = "u"});
  REQUIRE(fixture.mutator.rename(0, "s", "source"));
  REQUIRE(fixture.mutator.rename(0, "t", "a longer name"));
  CHECK(fixture.keys.mirrors().all() ==
        std::vector{Mirror{.database = 0, .source = "source", .target = "a longer name"}});
  CHECK(fixture.keys.mirrors().key_bytes_max() == 13);
  CHECK(fixture.try_add({.database = 0, .key = "source"}, {"a"}));
  CHECK(fixture.has({.database = 0, .key = "a longer name"}, "a"));
  CHECK(fixture.told()[fixture.told().size() - 2].key == "a longer name");
}

TEST_CASE("a mirror moves with its filters when databases are swapped") {
  Fixture fixture;
  fixture.mirror();
  fixture.mutator.swap_databases(0, 2);
  CHECK(fixture.keys.mirrors().all()[0].database == 2);
  CHECK(fixture.try_add({.database = 2, .key = "s"}, {"a"}));
  CHECK(fixture.has({.database = 2, .key = "t"}, "a"));
  fixture.mutator.swap_databases(2, 1);
  fixture.mutator.flush(0);
  CHECK(fixture.keys.mirrors().all()[0].database == 1);
  fixture.mutator.flush(1);
  CHECK(fixture.keys.mirrors().empty());
}

TEST_CASE("a filter is an end of at most one mirror, and not both ends of it") {
  Fixture fixture;
  const auto code = [&](std::string_view from, std::string_view to) {
    const auto begun = fixture.mutator.begin_mirror(0, from, to);
    return begun ? std::nullopt : std::optional(begun.error().code);
  };
  CHECK(code("s", "s") == Errc::out_of_range);
  CHECK(code("x", "t") == Errc::no_such_key);
  CHECK(code("s", "x") == Errc::not_found);
  CHECK(fixture.told().size() == 3);
  CHECK(code("s", "t") == std::nullopt);
  for (const auto& [from, to] : {std::pair{"s", "u"}, {"u", "s"}, {"t", "u"}, {"u", "t"}, {"t", "s"}})
    CHECK(code(from, to) == Errc::key_exists);
  CHECK(fixture.told().size() == 4);
}

TEST_CASE("the number of mirrors has a limit") {
  Fixture fixture;
  const auto key = [](std::size_t number) { return "k" + std::to_string(number); };
  for (std::size_t i = 0; i < 2 * keyspace::mirrors_max; ++i)
    REQUIRE(sepal::writers::create(fixture.mutator, {.database = 0, .key = key(i)}, {}));
  for (std::size_t i = 0; i < keyspace::mirrors_max; ++i)
    REQUIRE(fixture.mutator.begin_mirror(0, key(2 * i), key(2 * i + 1)));
  CHECK(fixture.mutator.begin_mirror(0, "s", "t").error().code == Errc::key_limit);
  CHECK(fixture.mutator.end_mirror({.database = 0, .key = "k0"}));
  CHECK(fixture.mutator.begin_mirror(0, "s", "t"));
}

TEST_CASE("an add to a source records no more than was reserved") {
  const std::size_t item_count = GENERATE(0, 1, 33, 2000);
  const auto items = numbered(item_count);
  const bloom::FilterOptions growing{.error_rate = 1e-9, .capacity = 1000, .expansion = 1, .seed = 3};
  Fixture fixture(growing, growing);
  fixture.mirror();
  const std::uint64_t before = fixture.told_bytes();
  fixture.add_alone(source, views_of(items));
  CHECK(fixture.told_bytes() - before <=
        sepal::writers::record_bytes_of_adds_alone(1, item_count, 3) +
            sepal::writers::record_bytes_of_mirror(fixture.keys.mirrors(), item_count, 3));
  // The source knows every 33rd item, so that the records of the two filters end at different items.
  Fixture often({.capacity = 10'000}, {.error_rate = 1e-9, .capacity = 1, .expansion = 32768});
  for (std::size_t i = 0; i < item_count; i += 33) often.add_alone(source, {items[i]});
  often.mirror();
  const std::uint64_t often_before = often.told_bytes();
  often.add_alone(source, views_of(items));
  CHECK(often.told_bytes() - often_before <=
        sepal::writers::record_bytes_of_adds_alone(1, item_count, 3) +
            sepal::writers::record_bytes_of_mirror(often.keys.mirrors(), item_count, 3));
  Fixture roomy({.capacity = 10'000}, {.capacity = 10'000});
  roomy.mirror();
  const std::uint64_t roomy_before = roomy.told_bytes();
  REQUIRE(roomy.try_add(source, views_of(items)));
  CHECK(roomy.told_bytes() - roomy_before <=
        sepal::writers::record_bytes_of_adds(1, item_count) +
            sepal::writers::record_bytes_of_mirror(roomy.keys.mirrors(), item_count, 0));
}

}  // namespace mirrors_test
