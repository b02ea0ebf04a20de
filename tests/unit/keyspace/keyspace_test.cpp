#include <sepal/keyspace/keyspace.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/values.hpp"

namespace keyspace_test {

namespace {

using namespace sepal;
using keyspace::DatabaseKey;
using keyspace::Keyspace;
using keyspace::KeyspaceOptions;
using sepal::bloom::FilterPtr;

class RecordingHousekeeper final : public keyspace::Housekeeper {
 public:
  void dispose(sepal::value::ValuePtr filter) override { disposed.push_back(std::move(filter)); }
  void dispose_database(std::shared_ptr<const void> database) override {
    disposed_databases.push_back(std::move(database));
  }
  void give_pages(value::ValuePtr value) override { settling.push_back(std::move(value)); }
  void due_at(keyspace::Deadline deadline) override { due.push_back(deadline); }
  std::vector<value::ValuePtr> disposed;
  std::vector<value::ValuePtr> settling;
  std::vector<std::shared_ptr<const void>> disposed_databases;
  std::vector<keyspace::Deadline> due;
};

struct Fixture {
  RecordingHousekeeper housekeeper;
  Keyspace keys{KeyspaceOptions{}, housekeeper};

  bloom::Filter* create(DatabaseKey key, std::uint64_t capacity = 100) {
    auto created = sepal::writers::create(keys, key, {.capacity = capacity});
    REQUIRE(created);
    return *created;
  }
};

FilterPtr make_filter(std::uint64_t capacity = 100) {
  auto created = bloom::Filter::create({.capacity = capacity}, {.bytes_max = 1 << 24});
  REQUIRE(created);
  return *created;
}

}  // namespace

TEST_CASE("a key is found in its own database only") {
  Fixture fixture;
  bloom::Filter* const created = fixture.create({.database = 3, .key = "users"});
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    CHECK(sepal::test::filter_at(fixture.keys, {.database = database, .key = "users"}) ==
          (database == 3 ? created : nullptr));
  CHECK(fixture.keys.size(3) == 1);
  CHECK(fixture.keys.size(0) == 0);
  CHECK(fixture.keys.total_size() == 1);
}

TEST_CASE("keys are bytes: empty, binary and long ones differ") {
  Fixture fixture;
  using namespace std::string_literals;
  const std::vector<std::string> names{"",
                                       "\0"s,
                                       "\0\0"s,
                                       "a\r\nb",
                                       "\xff\xfe",
                                       std::string(15, 'x'),
                                       std::string(16, 'x'),
                                       std::string(17, 'x'),
                                       std::string(keyspace::key_bytes_max, 'x')};
  std::vector<bloom::Filter*> filters;
  for (const auto& name : names) filters.push_back(fixture.create({.key = name}));
  for (std::size_t i = 0; i < names.size(); ++i)
    CHECK(sepal::test::filter_at(fixture.keys, {.key = names[i]}) == filters[i]);
}

TEST_CASE("create refuses a taken key and changes nothing") {
  Fixture fixture;
  bloom::Filter* const first = fixture.create({.key = "k"});
  const auto changes = fixture.keys.structure_changes();
  const auto again = sepal::writers::create(fixture.keys, {.key = "k"}, {.capacity = 5});
  REQUIRE_FALSE(again);
  CHECK(again.error().code == Errc::key_exists);
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "k"}) == first);
  CHECK(fixture.keys.structure_changes() == changes);
}

TEST_CASE("create returns the error of the filter's planning") {
  Fixture fixture;
  const auto refused = sepal::writers::create(fixture.keys, {.key = "k"}, {.error_rate = 0});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::out_of_range);
  CHECK(fixture.keys.total_size() == 0);
}

TEST_CASE("put replaces a filter and hands the old one to the housekeeper") {
  Fixture fixture;
  bloom::Filter* const old = fixture.create({.key = "k"});
  const FilterPtr filter = make_filter();
  REQUIRE(fixture.keys.put({.key = "k"}, filter));
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "k"}) == filter.get());
  CHECK(fixture.keys.total_size() == 1);
  REQUIRE(fixture.housekeeper.disposed.size() == 1);
  CHECK(fixture.housekeeper.disposed[0].get() == old);
}

TEST_CASE("put refuses a database that does not exist") {
  Fixture fixture;
  REQUIRE(fixture.keys.put({.database = keyspace::database_count - 1, .key = "k"}, make_filter()));
  const auto refused = fixture.keys.put({.database = keyspace::database_count, .key = "k"}, make_filter());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::out_of_range);
}

TEST_CASE("remove deletes a key and hands its filter to the housekeeper") {
  Fixture fixture;
  bloom::Filter* const created = fixture.create({.key = "k"});
  CHECK_FALSE(fixture.keys.remove({.key = "other"}));
  CHECK_FALSE(fixture.keys.remove({.database = 1, .key = "k"}));
  CHECK(fixture.keys.remove({.key = "k"}));
  CHECK_FALSE(fixture.keys.remove({.key = "k"}));
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "k"}) == nullptr);
  REQUIRE(fixture.housekeeper.disposed.size() == 1);
  CHECK(fixture.housekeeper.disposed[0].get() == created);
}

TEST_CASE("rename moves the filter itself") {
  Fixture fixture;
  bloom::Filter* const moved = fixture.create({.key = "from"});
  REQUIRE(fixture.keys.rename(0, "from", "to"));
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "from"}) == nullptr);
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "to"}) == moved);
  CHECK(fixture.housekeeper.disposed.empty());
}

TEST_CASE("rename replaces the filter under the new key") {
  Fixture fixture;
  bloom::Filter* const moved = fixture.create({.key = "users:next"});
  bloom::Filter* const replaced = fixture.create({.key = "users"});
  REQUIRE(fixture.keys.rename(0, "users:next", "users"));
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "users"}) == moved);
  CHECK(fixture.keys.total_size() == 1);
  REQUIRE(fixture.housekeeper.disposed.size() == 1);
  CHECK(fixture.housekeeper.disposed[0].get() == replaced);
}

TEST_CASE("rename onto itself succeeds and changes nothing") {
  Fixture fixture;
  bloom::Filter* const created = fixture.create({.key = "k"});
  const auto changes = fixture.keys.structure_changes();
  REQUIRE(fixture.keys.rename(0, "k", "k"));
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "k"}) == created);
  CHECK(fixture.keys.structure_changes() == changes);
  CHECK(fixture.housekeeper.disposed.empty());
}

TEST_CASE("rename of a missing key is an error, and the other key stays as it is") {
  Fixture fixture;
  bloom::Filter* const other = fixture.create({.key = "to"});
  for (const char* const to : {"to", "missing"}) {
    const auto refused = fixture.keys.rename(0, "missing", to);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::no_such_key);
  }
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "to"}) == other);
}

TEST_CASE("a flush empties one database and leaves the others") {
  Fixture fixture;
  FilterPtr flushed;
  for (int i = 0; i < 1000; ++i) fixture.create({.database = 1, .key = std::to_string(i)});
  fixture.create({.database = 2, .key = "kept"});
  for (const auto& entry : fixture.keys.cut())
    if (entry.key == "500") flushed = bloom::FilterPtr(static_cast<bloom::Filter*>(entry.value.get()));
  REQUIRE(flushed != nullptr);

  fixture.keys.flush(1);
  CHECK(fixture.keys.size(1) == 0);
  CHECK(fixture.keys.size(2) == 1);
  CHECK(sepal::test::filter_at(fixture.keys, {.database = 1, .key = "500"}) == nullptr);
  CHECK(flushed->use_count() == 2);
  fixture.housekeeper.disposed_databases.clear();
  CHECK(flushed->use_count() == 1);
}

TEST_CASE("flush_all hands each database over in one piece") {
  Fixture fixture;
  for (int i = 0; i < 1000; ++i)
    fixture.create({.database = static_cast<std::uint32_t>(i % 2), .key = std::to_string(i)});
  fixture.keys.flush_all();
  CHECK(fixture.keys.total_size() == 0);
  CHECK(fixture.housekeeper.disposed_databases.size() == 2);
  fixture.create({.key = "as before"});
  CHECK(sepal::test::filter_at(fixture.keys, {.key = "as before"}) != nullptr);
}

TEST_CASE("each change of structure is counted once, and nothing else is") {
  Fixture fixture;
  std::uint64_t expected = 0;
  const auto counted = [&] { return fixture.keys.structure_changes() == expected; };
  CHECK(counted());
  bloom::Filter* const grown = fixture.create({.key = "a"}, 1);
  ++expected;
  CHECK(counted());
  REQUIRE(fixture.keys.put({.key = "b"}, make_filter()));
  ++expected;
  CHECK(counted());
  REQUIRE(fixture.keys.rename(0, "b", "c"));
  ++expected;
  CHECK(counted());
  CHECK(sepal::writers::add_alone(fixture.keys, 0, *grown, "first").added);
  CHECK(counted());
  for (int i = 0; grown->layer_count() == 1; ++i)
    sepal::writers::add_alone(fixture.keys, 0, *grown, std::to_string(i));
  ++expected;
  CHECK(counted());
  CHECK(fixture.keys.remove({.key = "c"}));
  ++expected;
  CHECK(counted());
  CHECK_FALSE(fixture.keys.remove({.key = "c"}));
  fixture.keys.flush(5);
  CHECK(counted());
  fixture.keys.flush(0);
  ++expected;
  CHECK(counted());
  fixture.keys.flush_all();
  CHECK(counted());
}

TEST_CASE("a filter is handed over for its pages when it is created with a big layer") {
  Fixture fixture;
  fixture.create({.key = "small"});
  CHECK(fixture.housekeeper.settling.empty());
  bloom::Filter* const big = fixture.create({.key = "big"}, 4'000'000);
  REQUIRE(fixture.housekeeper.settling.size() == 1);
  CHECK(fixture.housekeeper.settling[0].get() == big);
}

TEST_CASE("layers that were filled before the filter got its key are handed over to be settled") {
  Fixture fixture;
  const bloom::FilterOptions options{.error_rate = 0.01, .capacity = 4'000'000};
  const auto planned = bloom::Filter::create(options, fixture.keys.value_limits());
  REQUIRE(planned);
  const bloom::Filter::LayerState layer{.plan = (*planned)->newest_layer().plan(), .item_count = 0};
  for (const auto filled_by : {bloom::FilledBy::requests, bloom::FilledBy::load}) {
    const auto filter = bloom::Filter::restore(options, {&layer, 1}, fixture.keys.value_limits(), filled_by);
    REQUIRE(filter);
    REQUIRE(fixture.keys.put({.database = 0, .key = "key"}, *filter));
    REQUIRE(fixture.housekeeper.settling.size() == 1);
    CHECK((fixture.housekeeper.settling[0] == *filter) == (filled_by == bloom::FilledBy::requests));
  }
}

TEST_CASE("each flush gives a database a new contents number, and a swap moves the number along") {
  Fixture fixture;
  const std::uint64_t first = fixture.keys.contents_of(0);
  const std::uint64_t second = fixture.keys.contents_of(1);
  REQUIRE(first != second);
  fixture.keys.swap(0, 1);
  CHECK(fixture.keys.contents_of(1) == first);
  CHECK(fixture.keys.contents_of(0) == second);
  fixture.keys.flush(0);
  CHECK(fixture.keys.contents_of(1) == first);
  CHECK(fixture.keys.contents_of(0) != second);
  fixture.keys.flush_all();
  CHECK(fixture.keys.contents_of(1) != first);
}

TEST_CASE("a cut holds every key of every database, and keeps its filters alive") {
  Fixture fixture;
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database)
    fixture.create({.database = database, .key = "in " + std::to_string(database)});
  const auto cut = fixture.keys.cut();
  fixture.keys.flush_all();
  fixture.housekeeper.disposed_databases.clear();
  REQUIRE(cut.size() == keyspace::database_count);
  for (const auto& entry : cut) {
    CHECK(entry.key == "in " + std::to_string(entry.database));
    CHECK(value::as<bloom::Filter>(entry.value.get())->capacity() == 100);
  }
}

TEST_CASE("set_defaults changes the reported options and nothing else") {
  Fixture fixture;
  fixture.keys.set_defaults({.keys_max = 1, .error_rate = 0.001, .capacity = 5000, .expansion = 4});
  CHECK(fixture.keys.options().error_rate == 0.001);
  CHECK(fixture.keys.options().capacity == 5000);
  CHECK(fixture.keys.options().expansion == 4);
  CHECK(fixture.keys.options().keys_max == KeyspaceOptions{}.keys_max);
}

}  // namespace keyspace_test
