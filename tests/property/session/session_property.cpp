// The same bytes, cut into any pieces, give the same replies of a session.
#include <sepal/command/run/partial_run.hpp>

#include <rapidcheck.h>

#include "support/catch.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::session_property {
namespace {

using namespace test;
using Step = Session::Step;

std::string request_of_items(const std::string& command, const std::vector<std::string>& items) {
  std::vector<std::string> words{command};
  if (command.starts_with("BF.")) words.emplace_back("key");
  words.insert(words.end(), items.begin(), items.end());
  return request(words);
}

// A request that runs in parts.
std::string long_request(const std::string& command, std::size_t seed) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < command::whole_items_max + 1 + seed % 1500; ++i)
    items.push_back(std::to_string(seed + i));
  return request_of_items(command, items);
}

std::string random_request(std::size_t item_bytes) {
  const std::string item(item_bytes, static_cast<char>('a' + item_bytes % 26));
  switch (*rc::gen::inRange(0, 40)) {
    case 37: return long_request("BF.MADD", item_bytes);
    case 38: return long_request("BF.MEXISTS", item_bytes);
    case 39:
      return item_bytes % 8 == 0 ? request({"ECHO", std::string(command::whole_bytes_max + item_bytes, 'x')})
                                 : long_request("DEL", item_bytes);
    case 0: return request({"FLUSHALL"});
    case 1: return "PING inline\r\n";
    case 2: return request({"NOSUCH", item});
    case 3: return "*0\r\n\r\n";
    case 4: return request({"BF.ADD", "key", item});
    case 5: return request({"BF.MEXISTS", "key", item, "x"});
    default: return request({"ECHO", item});
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

// Another session of the worker. It receives before and after the tested session, and runs in between. Its
// replies must answer its own requests only.
struct Neighbour {
  explicit Neighbour(SessionWorld& world)
      : session(world.environment, SessionWorld::client(world.services, true)) {}

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

// The replies to `bytes`, which arrive in pieces of at most these sizes, while the session looks ahead and
// other sessions of the worker receive and run.
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

// The replies to `bytes`, which arrive in pieces of at most these sizes, used again and again.
std::string replies_to(std::string_view bytes, const std::vector<std::size_t>& piece_bytes,
                       bloom::MissingFilter missing = bloom::MissingFilter::absent) {
  SessionWorld world;
  world.ground.options.missing_filter = missing;
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

// A pipeline as clients send it: many requests of one command, on one key or each on another. There are few
// keys and few items, so filters are created, filled, grown and deleted in the middle of requests that are
// taken together, and so are requests that name only a key or set its deadline.
std::vector<std::string> random_neighbours() {
  std::vector<std::string> requests;
  const int groups = *rc::gen::inRange(1, 20);
  for (int group = 0; group < groups; ++group) {
    const std::string command =
        *rc::gen::element<std::string>("BF.ADD", "BF.ADD", "bf.add", "bf.add", "BF.EXISTS", "CF.EXISTS",
                                       "DEL", "EXISTS", "EXPIRE", "PERSIST");
    const bool has_item = command != "DEL" && command != "EXISTS" && command != "PERSIST";
    const std::string key = *rc::gen::element<std::string>("k", "k", "other");
    const int count = command == "DEL" ? *rc::gen::element(1, 1, 40) : *rc::gen::inRange(1, 150);
    const int keys = *rc::gen::element(1, 1, 2, 50);
    for (int i = 0; i < count; ++i) {
      // A deadline in the past deletes the key.
      const std::string item = std::to_string(*rc::gen::inRange(command == "EXPIRE" ? -100 : 0, 400));
      const std::string each = keys == 1 ? key : key + std::to_string(*rc::gen::inRange(0, keys));
      requests.push_back(has_item ? request({command, each, item}) : request({command, each}));
    }
  }
  return requests;
}

// All replies of a request, as many batches as it takes.
std::string reply_to(SessionWorld& world, const std::string& bytes) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    world.receive(rest);
    for (Step step = world.run(); step == Step::run_again || step == Step::drain;) step = world.run();
  }
  return world.taken_output();
}

TEST_CASE("a long request answers what its parts answer as requests of their own") {
  CHECK(rc::check("long as short", [] {
    SessionWorld whole;
    SessionWorld parts;
    for (int requests = *rc::gen::inRange(1, 4); requests > 0; --requests) {
      const std::string name =
          *rc::gen::element<std::string>("BF.MADD", "BF.MADD", "BF.MEXISTS", "EXISTS", "DEL");
      const auto count = static_cast<std::size_t>(*rc::gen::inRange(1025, 2500));
      const int range = *rc::gen::element(3000, 100'000);
      std::vector<std::string> items;
      const int first = *rc::gen::inRange(0, range);
      for (std::size_t i = 0; i < count; ++i)
        items.push_back(std::to_string((first + 7 * static_cast<int>(i)) % range));
      std::string joined;
      std::uint64_t sum = 0;
      for (std::size_t at = 0; at < count; at += command::part_items_max) {
        const std::size_t end = std::min(at + command::part_items_max, count);
        const std::string reply =
            reply_to(parts, request_of_items(name, {items.begin() + static_cast<std::ptrdiff_t>(at),
                                                    items.begin() + static_cast<std::ptrdiff_t>(end)}));
        if (reply[0] == ':') sum += std::stoull(reply.substr(1));
        if (reply[0] == '*') joined += reply.substr(reply.find('\n') + 1);
      }
      const std::string expected =
          joined.empty() ? ":" + std::to_string(sum) + "\r\n" : "*" + std::to_string(count) + "\r\n" + joined;
      RC_ASSERT((reply_to(whole, request_of_items(name, items)) == expected));
    }
  }));
}

TEST_CASE("requests that are run together answer as if they were run one after the other") {
  CHECK(rc::check("together as one by one", [] {
    const std::vector<std::string> requests = random_neighbours();
    std::string together;
    SessionWorld single;
    const auto missing = *rc::gen::element(bloom::MissingFilter::absent, bloom::MissingFilter::error,
                                           bloom::MissingFilter::present);
    single.ground.options.missing_filter = missing;
    for (const std::string& one : requests) {
      together += one;
      static_cast<void>(single.give(one));
    }
    RC_ASSERT(replies_to(together, {together.size()}, missing) == single.taken_output());
  }));
}

TEST_CASE("the replies do not depend on the requests of other clients of the worker") {
  CHECK(rc::check("a session in rounds with others", [] {
    const std::string bytes = random_pipeline();
    const auto pieces =
        *rc::gen::container<std::vector<std::size_t>>(10, rc::gen::inRange<std::size_t>(1, 2000));
    RC_ASSERT(replies_in_rounds(bytes, pieces) == replies_to(bytes, {bytes.size()}));
  }));
}

TEST_CASE("the replies do not depend on where the requests are cut") {
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
}  // namespace sepal::session::session_property
