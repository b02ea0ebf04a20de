#include <sepal/keyspace/keyspace.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "keyspace/key_table.hpp"
#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/keys_made.hpp"
#include "support/values.hpp"

namespace keyspace_limits_test {

namespace {

using namespace sepal;
using keyspace::Keyspace;
using keyspace::KeyspaceOptions;
using keyspace::KeyTable;
using sepal::bloom::FilterPtr;
using sepal::test::FreeingHousekeeper;

constexpr std::uint64_t plenty = std::uint64_t{1} << 40;
constexpr std::uint64_t capacity = 10'000;

std::uint64_t planned_bytes(std::uint64_t item_capacity) {
  const auto planned = bloom::Filter::plan({.capacity = item_capacity}, {.bytes_max = plenty});
  REQUIRE(planned);
  return planned->byte_count;
}

FilterPtr make_filter() {
  auto created = bloom::Filter::create({.capacity = capacity}, {.bytes_max = plenty});
  REQUIRE(created);
  return *created;
}

std::uint64_t bytes_of_empty() {
  FreeingHousekeeper housekeeper;
  return Keyspace({}, housekeeper).memory_used();
}

}  // namespace

TEST_CASE("without a limit that is set, the share of the memory is the limit, and without it the machine") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({.machine_bytes = plenty}, housekeeper);
  CHECK(keys.memory_limit() == plenty);
  keys.set_memory_share(keys.memory_used() + 2 * make_filter()->byte_count());
  CHECK_FALSE(keys.over_memory_limit());
  CHECK(keys.put({.database = 0, .key = "a"}, make_filter()));
  CHECK(keys.put({.database = 0, .key = "b"}, make_filter()).error().code == Errc::memory_limit);
  keys.set_memory_share(1);  // as after a load of data that exceeds it
  CHECK(keys.over_memory_limit());
  keys.set_memory_max(plenty);
  CHECK(keys.memory_limit() == plenty);
  CHECK_FALSE(keys.over_memory_limit());
}

TEST_CASE("held memory counts as used, and other filters cannot use it") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  const std::uint64_t empty = keys.memory_used();
  const std::uint64_t filter_bytes = make_filter()->byte_count();
  keys.set_memory_max(empty + 3 * filter_bytes);
  REQUIRE(keys.hold(2 * filter_bytes + filter_bytes / 2));
  CHECK(keys.memory_used() == empty + 2 * filter_bytes + filter_bytes / 2);
  CHECK(keys.hold(filter_bytes).error().code == Errc::memory_limit);
  CHECK(keys.put({.database = 0, .key = "a"}, make_filter()).error().code == Errc::memory_limit);
  CHECK(sepal::writers::create(keys, {.database = 0, .key = "a"}, {.capacity = capacity}).error().code ==
        Errc::memory_limit);
  keys.release(filter_bytes);
  CHECK(keys.put({.database = 0, .key = "a"}, make_filter()));
  keys.release(filter_bytes + filter_bytes / 2);
  Keyspace other({}, housekeeper);
  sepal::test::make_tables(other, {0});
  CHECK(keys.memory_used() < other.memory_used() + 2 * filter_bytes);
  CHECK(keys.structure_changes() == 1);
}

TEST_CASE("an accepted filter gets its key, even if the limit is lower now") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  keys.set_memory_max(1);
  CHECK(keys.put({.database = 0, .key = "a"}, make_filter()).error().code == Errc::memory_limit);
  REQUIRE(keys.readopt({.database = 0, .key = "a"}, make_filter(), 9));
  CHECK(keys.deadline({.database = 0, .key = "a"}) == 9);
  CHECK(keys.readopt({.database = keyspace::database_count, .key = "a"}, make_filter(), 9).error().code ==
        Errc::out_of_range);
}

TEST_CASE("a key may be as long as its limit, and not a byte longer") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  const std::string longest(keyspace::key_bytes_max, 'k');
  const std::string too_long = longest + "k";
  REQUIRE(sepal::writers::create(keys, {.database = 0, .key = longest}, {}));
  CHECK(sepal::writers::create(keys, {.database = 0, .key = too_long}, {}).error().code ==
        Errc::key_too_long);
  CHECK(keys.put({.database = 0, .key = longest}, make_filter()));
  CHECK(keys.put({.database = 0, .key = too_long}, make_filter()).error().code == Errc::key_too_long);

  CHECK(keys.rename(0, "missing", too_long).error().code == Errc::no_such_key);
  CHECK(keys.rename(0, longest, too_long).error().code == Errc::key_too_long);
  CHECK(keys.rename(0, longest, "short"));
  CHECK(keys.rename(0, "short", longest));
  CHECK(keys.size(0) == 1);
}

TEST_CASE("keys_max keys fit over all databases, and one more does not") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({.keys_max = 3}, housekeeper);
  REQUIRE(sepal::writers::create(keys, {.database = 0, .key = "a"}, {}));
  REQUIRE(sepal::writers::create(keys, {.database = 1, .key = "a"}, {}));
  REQUIRE(keys.put({.database = 2, .key = "a"}, make_filter()));
  const auto created = sepal::writers::create(keys, {.database = 2, .key = "b"}, {});
  REQUIRE_FALSE(created);
  CHECK(created.error().code == Errc::key_limit);
  const auto put = keys.put({.database = 2, .key = "b"}, make_filter());
  REQUIRE_FALSE(put);
  CHECK(put.error().code == Errc::key_limit);

  // A call that adds no key is not refused. The error for a taken key comes before the limit's error.
  CHECK(keys.put({.database = 2, .key = "a"}, make_filter()));
  CHECK(sepal::writers::create(keys, {.database = 0, .key = "a"}, {}).error().code == Errc::key_exists);
  REQUIRE(keys.remove({.database = 0, .key = "a"}));
  CHECK(sepal::writers::create(keys, {.database = 2, .key = "b"}, {}));
}

TEST_CASE("create may take the last byte of the limit, and not one more") {
  FreeingHousekeeper housekeeper;
  const std::string key = GENERATE(std::string("short"), std::string(5000, 'k'));
  const std::uint64_t needed = bytes_of_empty() + KeyTable::entry_bytes(key) + planned_bytes(capacity);
  const bool of_machine = GENERATE(false, true);
  const auto keyspace_of = [&](std::uint64_t bytes) {
    return of_machine ? KeyspaceOptions{.machine_bytes = bytes} : KeyspaceOptions{.memory_max = bytes};
  };
  Keyspace enough(keyspace_of(needed), housekeeper);
  CHECK(sepal::writers::create(enough, {.key = key}, {.capacity = capacity}));
  Keyspace too_little(keyspace_of(needed - 1), housekeeper);
  const auto refused = sepal::writers::create(too_little, {.key = key}, {.capacity = capacity});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::memory_limit);
  CHECK(too_little.total_size() == 0);
  CHECK(too_little.memory_used() == bytes_of_empty());
}

TEST_CASE("put may take the last byte of the limit, and not one more") {
  FreeingHousekeeper housekeeper;
  const FilterPtr filter = make_filter();
  const std::uint64_t needed = bytes_of_empty() + KeyTable::entry_bytes("k") + filter->byte_count();
  Keyspace enough({.memory_max = needed}, housekeeper);
  CHECK(enough.put({.key = "k"}, filter));
  Keyspace too_little({.memory_max = needed - 1}, housekeeper);
  const auto refused = too_little.put({.key = "k"}, filter);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::memory_limit);
  CHECK(sepal::test::filter_at(too_little, {.key = "k"}) == nullptr);
}

TEST_CASE("put may reuse the bytes of the filter it replaces") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  REQUIRE(keys.put({.key = "k"}, make_filter()));
  const std::uint64_t used = keys.memory_used();
  const std::uint64_t needed = bytes_of_empty() + KeyTable::entry_bytes("k") + make_filter()->byte_count();
  keys.set_memory_max(needed);
  CHECK(keys.put({.key = "k"}, make_filter()));
  CHECK(keys.memory_used() == used);
  keys.set_memory_max(needed - 1);
  const auto refused = keys.put({.key = "k"}, make_filter());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::memory_limit);
}

TEST_CASE("filters that fill a keyspace to its limit fit into another keyspace of that limit") {
  FreeingHousekeeper housekeeper;
  constexpr std::uint64_t memory_max = 1 << 20;
  Keyspace full({.memory_max = memory_max}, housekeeper);
  const std::size_t key_bytes = GENERATE(1, 15, 40);
  for (int i = 0;; ++i) {
    const std::string number = std::to_string(i);
    const std::string key = number + std::string(key_bytes, 'k');
    if (!sepal::writers::create(full, {.database = static_cast<std::uint32_t>(i % 3), .key = key},
                                {.capacity = 10}))
      break;
  }
  REQUIRE(full.total_size() > 1000);
  auto entries = full.cut();
  if (GENERATE(false, true)) std::reverse(entries.begin(), entries.end());
  Keyspace loaded({.memory_max = memory_max}, housekeeper);
  bool all_put = true;
  for (const auto& entry : entries)
    all_put &= loaded.put({.database = entry.database, .key = entry.key}, entry.value).ok();
  CHECK(all_put);
  CHECK(loaded.total_size() == full.total_size());
  CHECK_FALSE(sepal::writers::create(loaded, {.key = "one more"}, {.capacity = 1000}));
}

TEST_CASE("a filter that no machine could hold is too large, whatever the limit") {
  FreeingHousekeeper housekeeper;
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1} << 30}) {
    Keyspace keys({.memory_max = limit}, housekeeper);
    const auto refused = sepal::writers::create(keys, {.key = "k"}, {.capacity = ~std::uint64_t{0}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::too_large);
  }
}

TEST_CASE("memory_max is the limit if it is set, otherwise the machine's memory") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({.memory_max = 3'000'000, .machine_bytes = 2'000'000, .layers_max = 7}, housekeeper);
  CHECK(keys.value_limits().bytes_max == 3'000'000 - keys.memory_used());
  CHECK(keys.value_limits().layers_max == 7);
  keys.set_memory_max(0);
  CHECK(keys.value_limits().bytes_max == 2'000'000 - keys.memory_used());
  Keyspace unknown({}, housekeeper);
  CHECK(unknown.value_limits().bytes_max == std::uint64_t{1} << 62);
}

TEST_CASE("a filter that grows keeps its items") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({.memory_max = 1'000'000}, housekeeper);
  auto created = sepal::writers::create(keys, {.key = "k"}, {.capacity = capacity});
  REQUIRE(created);
  const std::uint64_t held = (*created)->byte_count();
  CHECK(keys.value_limits(held).bytes_max == keys.value_limits().bytes_max + held);
  keys.set_memory_max(1);
  CHECK(keys.value_limits().bytes_max == 0);
  CHECK(keys.value_limits(held).bytes_max < held);
}

TEST_CASE("growth is counted, and refused where it would exceed the limit") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  auto created = sepal::writers::create(keys, {.key = "k"}, {.capacity = 10});
  REQUIRE(created);
  bloom::Filter& filter = **created;
  const std::uint64_t overhead = keys.memory_used() - filter.byte_count();
  for (int i = 0; filter.layer_count() == 1; ++i)
    REQUIRE(sepal::writers::add_alone(keys, 0, filter, std::to_string(i)).refusal ==
            bloom::Filter::Refusal::none);
  CHECK(keys.memory_used() == overhead + filter.byte_count());
  CHECK(keys.memory_peak() == keys.memory_used());

  keys.set_memory_max(keys.memory_used());
  const std::uint64_t used = keys.memory_used();
  auto outcome = bloom::Filter::AddOutcome{};
  for (int i = 0; outcome.refusal == bloom::Filter::Refusal::none; ++i)
    outcome = sepal::writers::add_alone(keys, 0, filter, "more " + std::to_string(i));
  CHECK(outcome.refusal == bloom::Filter::Refusal::too_large);
  CHECK(keys.memory_used() == used);
  CHECK(filter.layer_count() == 2);
}

TEST_CASE("a filter grows to layers_max layers, and not to one more") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({.layers_max = 3}, housekeeper);
  auto created = sepal::writers::create(keys, {.key = "k"}, {.capacity = 4, .expansion = 1});
  REQUIRE(created);
  auto outcome = bloom::Filter::AddOutcome{};
  for (int i = 0; outcome.refusal == bloom::Filter::Refusal::none; ++i)
    outcome = sepal::writers::add_alone(keys, 0, **created, std::to_string(i));
  CHECK(outcome.refusal == bloom::Filter::Refusal::layer_limit);
  CHECK((*created)->layer_count() == 3);
}

TEST_CASE("the memory account returns to that of an empty keyspace, and the peak stays") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  const std::uint64_t new_bytes = keys.memory_used();
  sepal::test::make_tables(keys, {0, 1, 2});
  std::uint64_t empty_bytes = keys.memory_used();
  for (int i = 0; i < 2000; ++i) {
    const auto database = static_cast<std::uint32_t>(i % 3);
    auto created = sepal::writers::create(
        keys, {.database = database, .key = "a rather long key " + std::to_string(i)}, {.capacity = 1});
    REQUIRE(created);
    for (int item = 0; item < i % 5; ++item)
      sepal::writers::add_alone(keys, database, **created, std::to_string(item));
  }
  const std::uint64_t full_bytes = keys.memory_used();
  CHECK(keys.memory_peak() == full_bytes);

  SECTION("after every key was renamed and removed") {
    for (int i = 0; i < 2000; ++i) {
      const auto database = static_cast<std::uint32_t>(i % 3);
      const std::string key = "a rather long key " + std::to_string(i);
      REQUIRE(keys.rename(database, key, "x"));
      REQUIRE(keys.remove({.database = database, .key = "x"}));
    }
  }
  SECTION("after each database was flushed") {
    for (std::uint32_t database = 0; database < 3; ++database) keys.flush(database);
    empty_bytes = new_bytes;
  }
  SECTION("after all were flushed") {
    keys.flush_all();
    empty_bytes = new_bytes;
  }
  CHECK(keys.memory_used() == empty_bytes);
  CHECK(keys.memory_peak() >= full_bytes);
}

TEST_CASE("a flush subtracts exactly its own database's bytes from the account") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  Keyspace other_alone({}, housekeeper);
  const int flushed_count = GENERATE(1, 500);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(sepal::writers::create(keys, {.database = 9, .key = std::to_string(i)}, {}));
    REQUIRE(sepal::writers::create(other_alone, {.database = 9, .key = std::to_string(i)}, {}));
  }
  for (int i = 0; i < flushed_count; ++i) {
    auto created = sepal::writers::create(keys, {.database = 0, .key = std::to_string(i)}, {.capacity = 1});
    REQUIRE(created);
    for (const char* const item : {"a", "b", "c"}) sepal::writers::add_alone(keys, 0, **created, item);
  }
  keys.flush(0);
  CHECK(keys.memory_used() == other_alone.memory_used());
}

// A filter that grows behind the keyspace's back shows whether a flush looks at it: the account knows nothing
// of the growth.
TEST_CASE("a flush looks at no filter, and forgets what was counted") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  const bool flushed_is_larger = GENERATE(false, true);
  REQUIRE(sepal::writers::create(keys, {.database = 0, .key = "stays"}, {.capacity = 1}));
  if (!flushed_is_larger)
    REQUIRE(sepal::writers::create(keys, {.database = 0, .key = "stays too"}, {.capacity = 1}));
  sepal::test::make_tables(keys, {3});
  const std::uint64_t bytes_before = keys.memory_used();
  for (const std::uint32_t database : {1U, 2U}) {
    const std::uint32_t before_swap = 3 - database;
    REQUIRE(sepal::writers::create(keys, {.database = before_swap, .key = "a"}, {.capacity = 1}));
    REQUIRE(sepal::writers::create(keys, {.database = before_swap, .key = "b"}, {.capacity = 1}));
    REQUIRE(keys.move({.database = before_swap, .key = "b"}, 3));
    REQUIRE(keys.move({.database = 3, .key = "b"}, before_swap));
  }
  keys.swap(1, 2);
  for (const std::uint32_t database : {0U, 1U, 2U})
    keys.for_each_key(database, [&](std::string_view key) {
      bloom::Filter& filter = *sepal::test::filter_at(keys, {.database = database, .key = key});
      while (filter.layer_count() == 1)
        (void)filter.add_alone(std::to_string(filter.item_count()), {.bytes_max = 1 << 20});
    });
  keys.flush(1);
  CHECK(keys.memory_used() > bytes_before);
  keys.flush(2);
  CHECK(keys.memory_used() == bytes_before);
}

TEST_CASE("over_memory_limit begins one byte past the limit") {
  FreeingHousekeeper housekeeper;
  Keyspace keys({}, housekeeper);
  REQUIRE(sepal::writers::create(keys, {.key = "k"}, {}));
  CHECK_FALSE(keys.over_memory_limit());
  keys.set_memory_max(keys.memory_used());
  CHECK_FALSE(keys.over_memory_limit());
  keys.set_memory_max(keys.memory_used() - 1);
  CHECK(keys.over_memory_limit());
  keys.set_memory_max(0);
  CHECK_FALSE(keys.over_memory_limit());
}

}  // namespace keyspace_limits_test
