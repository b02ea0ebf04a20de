#include <sepal/keyspace/deadline.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include <set>

#include "keyspace/key_table.hpp"
#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"

namespace deadline_test {

using namespace sepal;
using namespace sepal::keyspace;
using std::chrono::milliseconds;

namespace {

ValuePtr make_filter() {
  return *sepal::bloom::Filter::create({.capacity = 1}, {.bytes_max = 1 << 20});
}

constexpr WallTime at(std::int64_t milliseconds_since_1970) {
  return WallTime(milliseconds(milliseconds_since_1970));
}

class Waking final : public sepal::test::FreeingHousekeeper {
 public:
  void dispose(sepal::value::ValuePtr) override { ++disposed; }
  void due_at(Deadline deadline) override { due.push_back(deadline); }
  std::vector<Deadline> due;
  int disposed = 0;
};

struct Fixture {
  Waking housekeeper;
  Keyspace keys{{}, housekeeper};

  void create(const std::string& key, Deadline deadline = no_deadline, std::uint32_t database = 0) {
    REQUIRE(sepal::writers::create(keys, {.database = database, .key = key}, {}));
    if (deadline != no_deadline) REQUIRE(keys.set_deadline({.database = database, .key = key}, deadline));
  }
};

}  // namespace

TEST_CASE("a deadline has passed from its millisecond on; a key without one never expires") {
  CHECK_FALSE(is_past(1000, at(999)));
  CHECK(is_past(1000, at(1000)));
  CHECK_FALSE(is_past(no_deadline, at(1'000'000)));
  CHECK_FALSE(is_past(1, WallTime{}));
}

TEST_CASE("keys without a deadline take no memory for deadlines") {
  KeyTable table(1);
  sepal::Limbo at_once(nullptr);
  const ValuePtr filter = make_filter();
  for (int i = 0; i < 1000; ++i) table.insert(table.hashed("key " + std::to_string(i)), filter, at_once);
  const std::uint64_t bytes_before = table.byte_count();
  table.set_deadline(table.hashed("key 500"), no_deadline, at_once);
  CHECK(table.byte_count() == bytes_before);
  table.set_deadline(table.hashed("key 500"), 7, at_once);
  CHECK(table.byte_count() > bytes_before);
  CHECK(table.byte_count() < bytes_before + 1000);
}

TEST_CASE("keys keep their deadlines while the table grows and shrinks") {
  KeyTable table(1);
  sepal::Limbo at_once(nullptr);
  const ValuePtr filter = make_filter();
  const auto take = [&](const std::string& key) { return table.take(table.hashed(key), at_once); };
  const auto name = [](int i) { return "key " + std::to_string(i); };
  const auto expected = [](int i) { return static_cast<Deadline>(i % 3 == 0 ? 0 : 1 + i * 7919 % 1000); };
  constexpr int count = 5000;
  for (int i = 0; i < count; ++i) {
    table.insert(table.hashed(name(i)), filter, at_once);
    table.set_deadline(table.hashed(name(i)), expected(i), at_once);
  }
  for (int i = 0; i < count; ++i) REQUIRE(table.deadline(name(i)) == expected(i));
  for (int i = 0; i < count; ++i)
    if (i % 50 != 1) static_cast<void>(take(name(i)));
  for (int i = 1; i < count; i += 50) REQUIRE(table.deadline(name(i)) == expected(i));
  for (Deadline now = 1; now <= 1000; ++now) {
    std::vector<std::string> due;
    const auto note = [&](const Entry& entry, const value::Value&) { due.emplace_back(entry.key.view()); };
    while (table.visit_due(at(now), 3, note)) {
      for (const std::string& key : due) {
        REQUIRE(table.deadline(key) == now);
        static_cast<void>(take(key));
      }
      due.clear();
    }
    REQUIRE((table.due() == no_deadline || table.due() > now));
  }
  CHECK(table.deadlines().count == 0);
  CHECK((table.deadlines().sum == 0));
}

TEST_CASE("the housekeeper hears of the soonest deadline") {
  Fixture fixture;
  fixture.create("a", 500);
  fixture.create("b", 600);
  fixture.create("c", 400, 3);
  CHECK_FALSE(fixture.keys.set_deadline({.database = 3, .key = "c"}, 400));
  CHECK_FALSE(fixture.keys.set_deadline({.database = 3, .key = "nokey"}, 1));
  const std::vector<Deadline>& told = fixture.housekeeper.due;
  CHECK(*std::ranges::min_element(told) == 400);
  CHECK(told.size() <= 3);
  CHECK(fixture.keys.due() == 400);
}

TEST_CASE("all keys past their deadline are collected, over all databases") {
  Fixture fixture;
  fixture.create("a", 500);
  fixture.create("b", 600);
  fixture.create("c", 400, 3);
  fixture.create("d");
  std::vector<keyspace::NamedKey> due;
  CHECK_FALSE(fixture.keys.collect_due(at(399), 10, due));
  std::set<std::string> names;
  while (fixture.keys.collect_due(at(599), 10, due)) {
    for (const keyspace::NamedKey& each : due) {
      names.insert(each.key);
      CHECK(fixture.keys.expire({.database = each.database, .key = each.key}, at(599)));
    }
    due.clear();
  }
  CHECK(names == std::set<std::string>{"a", "c"});
  CHECK(fixture.keys.due() == 600);
  CHECK(fixture.keys.expired_count() == 2);
  CHECK_FALSE(fixture.keys.expire({.database = 0, .key = "b"}, at(599)));
  CHECK_FALSE(fixture.keys.expire({.database = 0, .key = "d"}, at(599)));
}

TEST_CASE("a scan visits keys past their deadline and does not answer them") {
  Fixture fixture;
  for (int i = 0; i < 300; ++i) fixture.create(std::to_string(i), i < 299 ? 10 : no_deadline);
  std::size_t seen = 0;
  int steps = 0;
  std::uint64_t cursor = 0;
  do {
    const ScanStep step = fixture.keys.scan(0, cursor, 10, at(10));
    seen += step.keys.size();
    cursor = step.cursor;
    ++steps;
  } while (cursor != 0);
  CHECK(seen == 1);
  CHECK(steps > 20);
  CHECK(fixture.keys.scan(0, 0, 1000).keys.size() == 300);
}

TEST_CASE("put sets the given deadline of the key") {
  Fixture fixture;
  fixture.create("a", 500);
  auto filter = bloom::Filter::create({}, {.bytes_max = 1 << 20});
  REQUIRE(fixture.keys.put({.database = 0, .key = "a"}, *filter));
  CHECK(fixture.keys.deadline({.database = 0, .key = "a"}) == no_deadline);
  REQUIRE(fixture.keys.put({.database = 0, .key = "b"}, *filter, 7));
  CHECK(fixture.keys.deadline({.database = 0, .key = "b"}) == 7);
}

}  // namespace deadline_test
