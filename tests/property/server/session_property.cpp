// A session does not care where its input is cut: the same bytes in any pieces give the same replies.
#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "unit/server/session_world.hpp"

namespace sepal::server {
namespace {

using test::request;
using test::SessionWorld;
using Step = Session::Step;

std::string random_request(std::size_t item_bytes) {
  const std::string item(item_bytes, static_cast<char>('a' + item_bytes % 26));
  switch (*rc::gen::inRange(0, 10)) {
    case 0:
      return request({"FLUSHALL"});
    case 1:
      return "PING inline\r\n";
    case 2:
      return request({"NOSUCH", item});
    case 3:
      return "*0\r\n\r\n";
    case 4:
      return request({"BF.ADD", "key", item});
    case 5:
      return request({"BF.MEXISTS", "key", item, "x"});
    default:
      return request({"ECHO", item});
  }
}

std::string random_pipeline() {
  std::string bytes;
  const int count = *rc::gen::inRange(1, 60);
  for (int i = 0; i < count; ++i) {
    const auto large = *rc::gen::weightedElement<bool>({{9, false}, {1, true}});
    bytes += random_request(static_cast<std::size_t>(*rc::gen::inRange(0, large ? 40'000 : 40)));
  }
  const auto broken = *rc::gen::weightedElement<bool>({{3, false}, {1, true}});
  if (broken) bytes += "*1\r\n$x\r\n" + request({"ECHO", "unreached"});
  return bytes;
}

// Another session of the worker, which receives before and behind, and runs between, and is to answer for
// itself alone.
struct Neighbour {
  explicit Neighbour(SessionWorld& world) : session(world.environment, SessionWorld::client(true)) {}

  void receive(std::size_t ping_count) {
    const std::string pings = test::repeated(request({"PING"}), ping_count);
    std::ranges::copy(pings, session.input_space().begin());
    session.input_arrived(pings.size());
    pings_due += ping_count;
  }
  void run(SessionWorld& world) {
    while (session.run() == Step::run_again) continue;
    session.take_output(world.reply_buffer);
    RC_ASSERT(world.reply_buffer == test::repeated("+PONG\r\n", std::exchange(pings_due, 0)));
  }

  Session session;
  std::size_t pings_due = 0;
};

// Answers to `bytes`, handed over in pieces of at most those sizes, while the session looks ahead and others
// of its worker receive and run.
std::string replies_in_rounds(std::string_view bytes, const std::vector<std::size_t>& piece_bytes) {
  SessionWorld world;
  world.ground.options.output_bytes_max = 10'000;
  Neighbour before(world);
  Neighbour behind(world);
  for (std::size_t i = 0; !bytes.empty(); ++i) {
    std::string_view piece = bytes.substr(0, piece_bytes[i % piece_bytes.size()]);
    const std::size_t offered = piece.size();
    if (i % 2 == 0) before.receive(1 + i % 5);
    world.receive(piece);
    bytes.remove_prefix(offered - piece.size());
    behind.receive(1 + i % 3);
    world.look_ahead();
    if (i % 2 == 0) before.run(world);
    if (i % 3 == 0) behind.run(world);
    Step step = world.run();
    while (step == Step::run_again || step == Step::drain) step = world.run();
    if (i % 3 != 0) behind.run(world);
    if (step == Step::close) break;
  }
  return world.taken_output();
}

// Answers to `bytes`, handed over in pieces of at most those sizes, over and over.
std::string replies_to(std::string_view bytes, const std::vector<std::size_t>& piece_bytes) {
  SessionWorld world;
  world.ground.options.output_bytes_max = 10'000;
  for (std::size_t i = 0; !bytes.empty(); ++i) {
    std::string_view piece = bytes.substr(0, piece_bytes[i % piece_bytes.size()]);
    const std::size_t offered = piece.size();
    world.receive(piece);
    bytes.remove_prefix(offered - piece.size());
    Step step = world.run();
    while (step == Step::run_again || step == Step::drain) step = world.run();
    if (step == Step::close) break;
  }
  return world.taken_output();
}

// A pipeline as clients send them: many requests of one command on one key, or each on another, of few keys
// and few items, so that filters are created, filled, grown and deleted in the middle of what is taken
// together.
std::vector<std::string> random_neighbours() {
  std::vector<std::string> requests;
  const int groups = *rc::gen::inRange(1, 20);
  for (int group = 0; group < groups; ++group) {
    const std::string command =
        *rc::gen::element<std::string>("BF.ADD", "BF.ADD", "bf.add", "BF.EXISTS", "DEL");
    const std::string key = *rc::gen::element<std::string>("k", "k", "other");
    const int count = command == "DEL" ? 1 : *rc::gen::inRange(1, 150);
    const int keys = *rc::gen::element(1, 1, 2, 50);
    for (int i = 0; i < count; ++i) {
      const std::string item = std::to_string(*rc::gen::inRange(0, 400));
      const std::string each = keys == 1 ? key : key + std::to_string(*rc::gen::inRange(0, keys));
      requests.push_back(command == "DEL" ? request({command, key}) : request({command, each, item}));
    }
  }
  return requests;
}

TEST_CASE("requests that are run together answer as if they were run one after the other",
          "[server][property]") {
  CHECK(rc::check("together as one by one", [] {
    const std::vector<std::string> requests = random_neighbours();
    std::string together;
    SessionWorld single;
    for (const std::string& one : requests) {
      together += one;
      static_cast<void>(single.give(one));
    }
    RC_ASSERT(replies_to(together, {together.size()}) == single.taken_output());
  }));
}

TEST_CASE("the replies do not depend on what others of the worker receive and run", "[server][property]") {
  CHECK(rc::check("a session in rounds with others", [] {
    const std::string bytes = random_pipeline();
    const auto pieces =
        *rc::gen::container<std::vector<std::size_t>>(10, rc::gen::inRange<std::size_t>(1, 2000));
    RC_ASSERT(replies_in_rounds(bytes, pieces) == replies_to(bytes, {bytes.size()}));
  }));
}

TEST_CASE("the replies do not depend on where the requests are cut", "[server][property]") {
  CHECK(rc::check("cut anywhere, same replies", [] {
    const std::string bytes = random_pipeline();
    const auto small =
        *rc::gen::container<std::vector<std::size_t>>(10, rc::gen::inRange<std::size_t>(1, 50));
    const auto large =
        *rc::gen::container<std::vector<std::size_t>>(10, rc::gen::inRange<std::size_t>(1, 20'000));
    const std::string whole = replies_to(bytes, {bytes.size()});
    RC_ASSERT(replies_to(bytes, small) == whole);
    RC_ASSERT(replies_to(bytes, large) == whole);
  }));
}

}  // namespace
}  // namespace sepal::server
