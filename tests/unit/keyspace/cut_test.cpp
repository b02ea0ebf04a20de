#include <sepal/keyspace/cut.hpp>
#include <sepal/writers/bloom_writer.hpp>

#include "support/catch.hpp"
#include "support/freeing_housekeeper.hpp"
#include "support/values.hpp"

namespace cut_test {

using namespace sepal;
using namespace sepal::keyspace;

namespace {

using Content = std::map<std::pair<std::uint32_t, std::string>, std::pair<value::Value*, Deadline>>;

struct Changing {
  test::FreeingHousekeeper housekeeper;
  Keyspace keys{{.memory_max = std::uint64_t{1} << 33}, housekeeper};

  void create(std::uint32_t database, const std::string& key) {
    static_cast<void>(sepal::writers::create(keys, {.database = database, .key = key}, {}));
  }
  [[nodiscard]] Content content() const {
    Content content;
    for (const CutEntry& entry : keys.cut())
      content[{entry.database, entry.key}] = {entry.value.get(), entry.deadline};
    return content;
  }
};

Content content_of(const std::vector<CutEntry>& entries) {
  Content content;
  for (const CutEntry& entry : entries)
    content[{entry.database, entry.key}] = {entry.value.get(), entry.deadline};
  CHECK(content.size() == entries.size());
  return content;
}

}  // namespace

TEST_CASE("a cut in steps of an idle keyspace equals its state") {
  Changing changing;
  for (int i = 0; i < 1000; ++i)
    changing.create(static_cast<std::uint32_t>(i % 3), "key " + std::to_string(i));
  const auto cut = changing.keys.begin_cut();
  CHECK(cut->size() == 1000);
  std::vector<CutEntry> entries;
  int steps = 1;
  for (; !cut->step(10, entries); ++steps) CHECK(entries.size() < 10 * 1000);
  CHECK(steps > 5);
  CHECK(content_of(entries) == changing.content());
}

TEST_CASE("a cut of an empty keyspace is empty") {
  Changing changing;
  const auto cut = changing.keys.begin_cut();
  std::vector<CutEntry> entries;
  CHECK(cut->step(1, entries));
  CHECK(entries.empty());
}

TEST_CASE("a cut that is dropped before its end leaves the keyspace as it is, and another may begin") {
  Changing changing;
  changing.create(0, "key");
  changing.keys.begin_cut().reset();
  changing.create(0, "another");
  std::vector<CutEntry> entries;
  CHECK(changing.keys.begin_cut()->step(100, entries));
  CHECK(entries.size() == 2);
}

TEST_CASE("a cut that began before a flush has the flushed keys, and no later ones") {
  Changing changing;
  for (int i = 0; i < 500; ++i) changing.create(1, std::to_string(i));
  const Content before = changing.content();
  const auto cut = changing.keys.begin_cut();
  std::vector<CutEntry> entries;
  CHECK_FALSE(cut->step(50, entries));
  changing.keys.flush(1);
  for (int i = 0; i < 700; ++i) changing.create(1, std::to_string(i));
  changing.keys.flush_all();
  while (!cut->step(50, entries)) changing.create(1, "new " + std::to_string(entries.size()));
  CHECK(content_of(entries) == before);
}

// There are few keys, so that each is created, removed and renamed many times. Now and then many other keys
// are created, so that segments split and merge during the cut.
TEST_CASE("a cut has the keyspace of its first instant, whatever changes between its steps") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t bound) { return random() % bound; };
    Changing changing;
    const auto change = [&] {
      const auto database = static_cast<std::uint32_t>(below(2) * 3);
      const std::string key = std::to_string(below(200));
      const std::string other = std::to_string(below(200));
      switch (below(14)) {
        case 0:
        case 1:
        case 2: static_cast<void>(changing.keys.remove({.database = database, .key = key})); break;
        case 3:
        case 4: static_cast<void>(changing.keys.rename(database, key, other)); break;
        case 5:
          if (bloom::Filter* const moved =
                  sepal::test::filter_at(changing.keys, {.database = database, .key = key}))
            static_cast<void>(
                changing.keys.put({.database = database, .key = other}, bloom::FilterPtr(moved)));
          break;
        case 6:
          if (below(40) == 0) changing.keys.flush(database);
          if (below(20) == 0) changing.keys.swap(0, 3);
          static_cast<void>(changing.keys.move({.database = database, .key = key}, 3 - database));
          break;
        case 7:
          if (below(20) == 0)
            for (int i = 0; i < 300; ++i) changing.create(database, key + "/" + std::to_string(i));
          break;
        case 8:
          for (int i = 0; i < 300 && below(20) != 0; ++i)
            static_cast<void>(
                changing.keys.remove({.database = database, .key = key + "/" + std::to_string(i)}));
          break;
        case 9:
        case 10:
          static_cast<void>(changing.keys.set_deadline({.database = database, .key = key},
                                                       static_cast<Deadline>(below(3))));
          break;
        default: changing.create(database, key);
      }
    };
    for (std::uint64_t i = below(600); i > 0; --i) change();
    const Content before = changing.content();
    const auto cut = changing.keys.begin_cut();
    REQUIRE(cut->size() == before.size());
    std::vector<CutEntry> entries;
    while (!cut->step(1 + below(60), entries))
      for (std::uint64_t i = below(40); i > 0; --i) change();
    REQUIRE(content_of(entries) == before);
  }
}

}  // namespace cut_test
