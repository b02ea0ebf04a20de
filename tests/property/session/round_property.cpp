// Clients do not notice that they are served in rounds: each new item is answered 1 once, and every answer
// stays true.
#include <rapidcheck.h>

#include "support/catch.hpp"
#include "unit/session/round_world.hpp"

namespace sepal::session::round_property {
namespace {

using namespace test;
using Item = std::pair<std::string, std::string>;  // key and item

struct Asked {
  bool adds = false;
  Item item;
  std::size_t pings_before = 0;
  std::size_t pings_behind = 0;

  [[nodiscard]] std::string bytes() const {
    const std::string ping = request({"PING"});
    return test::repeated(ping, pings_before) +
           request({adds ? "BF.ADD" : "BF.EXISTS", item.first, item.second}) +
           test::repeated(ping, pings_behind);
  }
};

Asked random_request() {
  // More items than the filters' first capacity, so that they grow in the middle of a round.
  static const std::vector<std::string> keys{"a", "b"};
  return {.adds = *rc::gen::arbitrary<bool>(),
          .item = {*rc::gen::elementOf(keys), std::to_string(*rc::gen::inRange(0, 40))},
          .pings_before = static_cast<std::size_t>(*rc::gen::weightedElement<int>({{9, 0}, {1, 1}})),
          .pings_behind = static_cast<std::size_t>(*rc::gen::weightedElement<int>({{9, 0}, {1, 2}}))};
}

// The digit of the only answer that is not PONG.
char answer_in(std::string reply) {
  for (std::size_t at = reply.find("+PONG\r\n"); at != std::string::npos; at = reply.find("+PONG\r\n"))
    reply.erase(at, 7);
  RC_ASSERT(reply.size() == 4 && reply[0] == ':');
  return reply[1];
}

TEST_CASE("in rounds, each new item is answered 1 exactly once, and no answered item is denied") {
  CHECK(rc::check("rounds", [] {
    const auto count = static_cast<std::size_t>(*rc::gen::inRange(1, 17));
    RoundWorld world(count);
    world.ground.options.output_bytes_max = 10'000;
    // With this small rate there will be no false positive in any run.
    for (const char* const key : {"a", "b"}) world.ask(request({"BF.RESERVE", key, "1e-12", "4"}));
    std::set<Item> known;
    for (int round = 0; round < 10; ++round) {
      std::vector<Asked> asked;
      std::vector<std::string> bytes;
      for (std::size_t i = 0; i < count; ++i) {
        asked.push_back(random_request());
        bytes.push_back(asked.back().bytes());
      }
      const std::vector<std::string> replies = world.round(bytes);
      std::map<Item, int> told_new;
      std::set<Item> added;
      for (std::size_t i = 0; i < count; ++i) {
        if (!asked[i].adds) continue;
        added.insert(asked[i].item);
        told_new[asked[i].item] += answer_in(replies[i]) == '1' ? 1 : 0;
      }
      for (const Item& item : added) RC_ASSERT(told_new[item] == (known.contains(item) ? 0 : 1));
      for (std::size_t i = 0; i < count; ++i) {
        if (asked[i].adds) continue;
        const char answer = answer_in(replies[i]);
        if (known.contains(asked[i].item)) RC_ASSERT(answer == '1');
        if (!known.contains(asked[i].item) && !added.contains(asked[i].item)) RC_ASSERT(answer == '0');
      }
      known.insert(added.begin(), added.end());
    }
  }));
}

}  // namespace
}  // namespace sepal::session::round_property
