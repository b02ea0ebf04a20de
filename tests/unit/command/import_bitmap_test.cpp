// BF.IMPORTBITMAP: its replies, errors and limits, and what the journal gets.
#include <sepal/bloom/plan/schemes.hpp>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace import_bitmap_test {
namespace {

using namespace sepal;
using bloom::ClientBits;
using bloom::Scheme;
using command::Next;
using Kind = test::Recorded::Kind;

const ClientBits go_zero{.scheme = Scheme::go_zero, .bit_count = 2000, .probe_count = 14};

struct World : command::testing::World {
  World() : command::testing::World(keyspace::KeyspaceOptions{.seed = 1}) {
    services.logs = recording.all_logs();
  }

  // As a client program adds items to its bitmap.
  void add(const std::string& key, const ClientBits& bits, int begin, int end) {
    for (int i = begin; i < end; ++i) {
      std::vector<std::uint64_t> positions(bits.probe_count);
      bloom::positions_of(item(i), bits, positions);
      for (const std::uint64_t position : positions) send({"SETBIT", key, std::to_string(position), "1"});
    }
  }
  [[nodiscard]] static std::string item(int number) { return "item " + std::to_string(number); }

  // The items of a range that the filter has.
  int known(const std::string& key, int begin, int end) {
    int count = 0;
    for (int i = begin; i < end; ++i) count += send({"BF.EXISTS", key, item(i)}) == ":1" ? 1 : 0;
    return count;
  }
};

TEST_CASE("a bitmap of a client program becomes a filter") {
  World world;
  world.add("old", go_zero, 0, 80);
  CHECK(world.send({"BF.IMPORTBITMAP", "new", "old", "SCHEME", "go-zero", "BITS", "2000", "CAPACITY",
                    "100"}) == "+OK");
  CHECK(world.known("new", 0, 80) == 80);
  CHECK(world.known("new", 1000, 1500) < 5);
  CHECK(world.send({"TYPE", "new"}) == "+MBbloom--");
  CHECK(world.send({"TYPE", "old"}) == "+string");
  // New items get into a layer above, and items of the bitmap are known.
  CHECK(world.send({"BF.ADD", "new", "item 7"}) == ":0");
  CHECK(world.send({"BF.ADD", "new", "item 3000"}) == ":1");
  CHECK(world.send({"BF.MADD", "new", "item 8", "item 3000", "item 3001"}) == "*[:0, :0, :1]");
  CHECK(world.send({"BF.INSERT", "new", "ITEMS", "item 9", "item 3002"}) == "*[:0, :1]");
  CHECK(world.known("new", 3000, 3003) == 3);
  CHECK(world.send({"BF.INFO", "new", "FILTERS"}) == "*[:2]");
  CHECK(world.send({"BF.INFO", "new", "CAPACITY"}) == "*[:200]");
  CHECK(world.send({"BF.DEBUG", "new"}).find("hashes:14") != std::string::npos);
  CHECK(world.send({"BF.STATS", "new"}).find("$layout, $client, ") != std::string::npos);
  CHECK(world.send({"BF.STATS", "new"}).find("$bits, :2000, ") != std::string::npos);
}

TEST_CASE("an import is recorded as a filter that comes whole") {
  World world;
  world.add("old", go_zero, 0, 50);
  world.send({"PEXPIREAT", "old", "33177117420000"});
  world.dispatcher.commit();
  const std::size_t before = world.recording.operations().size();
  REQUIRE(world.send({"BF.IMPORTBITMAP", "new", "old", "SCHEME", "GO-ZERO", "BITS", "2000", "CAPACITY",
                      "100"}) == "+OK");
  world.dispatcher.commit();
  const auto operations = world.recording.operations();
  REQUIRE(operations.size() == before + 1);
  CHECK(operations.back().kind == Kind::adopted);
  CHECK(world.send({"PEXPIRETIME", "new"}) == ":33177117420000");
}

TEST_CASE("a key that is taken is replaced only if REPLACE says so") {
  World world;
  world.add("old", go_zero, 0, 50);
  world.send({"BF.ADD", "new", "x"});
  CHECK(world.send({"BF.IMPORTBITMAP", "new", "old", "SCHEME", "go-zero", "BITS", "2000", "CAPACITY", "9"}) ==
        "-ERR item exists");
  CHECK(world.send({"BF.IMPORTBITMAP", "new", "old", "SCHEME", "go-zero", "BITS", "2000", "CAPACITY", "9",
                    "REPLACE"}) == "+OK");
  CHECK(world.send({"BF.EXISTS", "new", "x"}) == ":0");
  CHECK(world.known("new", 0, 50) == 50);
  // In place.
  CHECK(world.send({"BF.IMPORTBITMAP", "old", "old", "REPLACE", "SCHEME", "go-zero", "BITS", "2000",
                    "CAPACITY", "9"}) == "+OK");
  CHECK(world.known("old", 0, 50) == 50);
  CHECK(world.send({"SETBIT", "old", "1", "1"}).substr(0, 10) == "-WRONGTYPE");
}

TEST_CASE("every scheme has its options") {
  for (const bloom::SchemeFacts& facts : bloom::schemes()) {
    CAPTURE(facts.name);
    World world;
    const ClientBits bits{.scheme = facts.scheme,
                          .bit_count = 2000,
                          .probe_count = facts.probe_count == 0 ? 5 : facts.probe_count,
                          .first_seed = facts.seeded ? 41U : 0U};
    world.add("old", bits, 0, 100);
    std::vector<std::string> words{"BF.IMPORTBITMAP", "new", "old",  "SCHEME", std::string(facts.name),
                                   "CAPACITY",        "100", "BITS", "2000"};
    const auto send = [&](std::initializer_list<std::string> more) {
      std::vector<std::string> all = words;
      all.insert(all.end(), more);
      return world.send_words("a", {all.begin(), all.end()});
    };
    const bool fixed = facts.probe_count != 0;
    CHECK(send(fixed ? std::initializer_list<std::string>{"HASHES", "14"}
                     : std::initializer_list<std::string>{}) ==
          (fixed ? "-ERR HASHES must not be given: the scheme or the string says how many there are"
                 : "-ERR HASHES must be given: the number of bits that the program sets for an item"));
    if (!fixed) words.insert(words.end(), {"HASHES", "5"});
    if (facts.seeded) {
      words.insert(words.end(), {"SEED", "41"});
    } else {
      CHECK(send({"SEED", "41"}) == "-ERR this scheme has no SEED");
    }
    CHECK(send({"ERROR", "0.02", "EXPANSION", "4"}) == "+OK");
    CHECK(world.known("new", 0, 100) == 100);
    CHECK(world.known("new", 1000, 1100) < 30);
    CHECK(world.send({"BF.INFO", "new", "EXPANSION"}) == "*[:4]");
  }
}

TEST_CASE("a large bitmap is imported by a job, and not in a transaction") {
  World world;
  const ClientBits bits{.scheme = Scheme::redisson, .bit_count = 10'000'000, .probe_count = 7};
  world.add("old", bits, 0, 2000);
  const std::initializer_list<std::string_view> import{
      "BF.IMPORTBITMAP", "new",    "old", "SCHEME",   "redisson", "BITS",
      "10000000",        "HASHES", "7",   "CAPACITY", "1000"};
  world.send({"MULTI"});
  world.send(import);
  CHECK(world.send({"EXEC"}).find(
            "-ERR a filter or string as large as this one is copied by a job of its own") !=
        std::string::npos);
  CHECK(world.send(import) == "");
  CHECK(world.outcome.next == Next::wait);
  CHECK(world.adopt_first() == "+OK");
  CHECK(world.known("new", 0, 2000) == 2000);
  CHECK(world.known("new", 10'000, 11'000) == 0);

  world.send({"DEL", "new"});
  CHECK(world.send(import) == "");
  world.send({"FLUSHDB"});
  CHECK(world.adopt_first().starts_with("-ERR the database was flushed or swapped"));

  world.send({"MULTI"});
  world.add("small", go_zero, 0, 2);
  world.send({"BF.IMPORTBITMAP", "new", "small", "SCHEME", "go-zero", "BITS", "2000", "CAPACITY", "9"});
  CHECK(world.send({"EXEC"}).find("+OK") != std::string::npos);
  CHECK(world.known("new", 0, 2) == 2);
}

TEST_CASE("the serialised form of Guava needs no further options") {
  World world;
  // 64 bits, all set.
  const std::string bytes = std::string("\1\3\0\0\0\1", 6) + std::string(8, '\xff');
  world.send({"SET", "old", bytes});
  CHECK(world.send({"BF.IMPORTBITMAP", "new", "old", "SCHEME", "guava", "CAPACITY", "10"}) == "+OK");
  CHECK(world.known("new", 0, 3) == 3);
  CHECK(world.send({"BF.IMPORTBITMAP", "a", "old", "SCHEME", "guava", "CAPACITY", "10", "SEED", "1"}) ==
        "-ERR this scheme has no SEED");
}

}  // namespace
}  // namespace import_bitmap_test
