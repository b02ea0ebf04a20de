// CF.LOADCHUNK of a long piece runs in parts, in the open gate.
#include <sepal/cuckoo/native/filter.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/command/world.hpp"

namespace sepal::command::cuckoo_chunks_test {
namespace {

using testing::World;

constexpr std::size_t item_count = 5000;

cuckoo::Filter& filter_of(World& world, std::string_view key) {
  value::Value* const found = world.keyspace.find({.database = 0, .key = key}, world.now);
  REQUIRE(found != nullptr);
  return value::as<cuckoo::Filter>(*found);
}

std::uint64_t changes(const World& world) {
  return world.workers[0].other_changes.get();
}

// A filter under `source`, and under `target` one that is made like it and has nothing.
struct Chunks {
  Chunks() {
    world.send({"CF.RESERVE", "source", "20000"});
    std::vector<std::string> items;
    for (std::size_t number = 0; number < item_count; ++number)
      items.push_back("item" + std::to_string(number));
    std::vector<std::string_view> words{"CF.INSERT", "source", "ITEMS"};
    words.insert(words.end(), items.begin(), items.end());
    world.send_words("a", words);
    const cuckoo::Filter& source = filter_of(world, "source");
    REQUIRE(source.item_count() == item_count);
    header = cuckoo::header_piece(source.plan());
    piece = source.piece_at(0)->bytes;
    REQUIRE(world.send({"CF.LOADCHUNK", "target", "1", header}) == "+OK");
    world.alone_runs = 0;
  }
  std::string load() { return world.send({"CF.LOADCHUNK", "target", "2", piece}); }

  World world;
  std::string header;
  std::string piece;
};

TEST_CASE("CF.LOADCHUNK of a long piece lets other clients run, and does not close the gate") {
  Chunks chunks;
  World& world = chunks.world;
  std::uint64_t before = 0;
  world.between_parts = [&](int) {
    const std::uint64_t items = filter_of(world, "target").item_count();
    CHECK(items - before <= cuckoo::piece_step_max);
    before = items;
    CHECK(world.send_from("b", {"CF.ADD", "other", "a"}) == ":1");
  };
  CHECK(chunks.load() == "+OK");
  CHECK(world.parts_before_the_last >= static_cast<int>(2 * item_count / cuckoo::piece_step_max));
  CHECK(world.alone_runs == 0);
  CHECK(filter_of(world, "target").item_count() == item_count);
  CHECK(changes(world) == item_count);
  world.between_parts = {};
  CHECK(chunks.load() == "-ERR the filter has items of this chunk already: delete the key and begin anew");
  CHECK(filter_of(world, "target").item_count() == item_count);
}

TEST_CASE("CF.LOADCHUNK in a transaction loads the whole piece") {
  Chunks chunks;
  World& world = chunks.world;
  world.send({"MULTI"});
  chunks.load();
  CHECK(world.send({"EXEC"}) == "*[+OK]");
  CHECK(filter_of(world, "target").item_count() == item_count);
}

TEST_CASE("CF.LOADCHUNK ends when its filter loses the key between two parts") {
  Chunks chunks;
  World& world = chunks.world;
  // A header of RedisBloom.
  const std::string foreign("\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\x14\0\1\0",
                            38);
  const auto made_anew = GENERATE(0, 1, 2);
  // While it is looked up, and while it is added.
  const auto part = GENERATE(2, 8);
  world.between_parts = [&](int parts) {
    if (parts != part) return;
    world.send_from("b", {"DEL", "target"});
    if (made_anew != 0)
      world.send_from("b", {"CF.LOADCHUNK", "target", "1", made_anew == 1 ? chunks.header : foreign});
  };
  CHECK(chunks.load() == "-ERR not found");
  world.between_parts = {};
  CHECK(world.send({"EXISTS", "target"}) == (made_anew == 0 ? ":0" : ":1"));
  if (made_anew == 1) CHECK(filter_of(world, "target").item_count() == 0);
}

}  // namespace
}  // namespace sepal::command::cuckoo_chunks_test
