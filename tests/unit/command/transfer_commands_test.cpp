#include "support/catch.hpp"
#include "world.hpp"

namespace transfer_commands_test {

namespace {

using namespace sepal::command;
using namespace sepal::command::testing;

struct Answered {
  std::string next;
  std::string piece;
};

// Parses *[:next, $piece], for any bytes of the piece.
Answered dump(World& world, std::string_view key, std::string_view iterator) {
  const std::string said = world.send({"bf.scandump", key, iterator});
  REQUIRE(said.starts_with("*[:"));
  const auto comma = said.find(", $");
  return {.next = said.substr(3, comma - 3), .piece = said.substr(comma + 3, said.size() - comma - 4)};
}

TEST_CASE("a filter with more layers than layers_max is refused with the limit") {
  World from({.layers_max = 3});
  from.send({"bf.reserve", "k", "0.01", "1", "expansion", "1"});
  from.send({"bf.madd", "k", "a", "b", "c"});
  CHECK(from.send({"bf.info", "k", "filters"}) == "*[:3]");
  const std::string payload = from.send({"dump", "k"}).substr(1);
  const Answered header = dump(from, "k", "0");
  World enough({.layers_max = 3});
  CHECK(enough.send({"restore", "k", "0", payload}) == "+OK");
  CHECK(enough.send({"bf.loadchunk", "l", "1", header.piece}) == "+OK");
  World less({.layers_max = 2});
  const std::string refused = "-ERR the filter has more than 2 layers, the limit (layers_max)";
  CHECK(less.send({"restore", "k", "0", payload}) == refused);
  CHECK(less.send({"bf.loadchunk", "l", "1", header.piece}) == refused);
}

TEST_CASE("an upload whose adoption was dropped does not count as loaded, whatever the key names") {
  World world;
  world.services.logs = world.recording.all_logs();
  world.send({"bf.reserve", "k", "0.01", "1000000"});
  world.send({"bf.add", "copy", "old"});
  const std::string lost =
      "-ERR the upload has not got under its key: wait for it, or begin again with the header";
  std::vector<Answered> pieces;
  for (std::string at = "0";; at = pieces.back().next) {
    Answered piece = dump(world, "k", at);
    if (piece.next == "0") break;
    pieces.push_back(std::move(piece));
  }
  const auto upload = [&] {
    for (const Answered& piece : pieces) world.send({"bf.loadchunk", "copy", piece.next, piece.piece});
    REQUIRE(world.adoptions.waiting.size() == 1);
  };
  const auto retry = [&] {
    return world.send_from("b", {"bf.loadchunk", "copy", pieces.back().next, pieces.back().piece});
  };
  upload();
  CHECK(retry() == lost);
  world.adoptions.waiting.clear();
  CHECK(retry() == lost);
  upload();
  world.adoptions.waiting.front().adoption.adopted();
  CHECK(retry() == "+OK");
}

}  // namespace

}  // namespace transfer_commands_test
