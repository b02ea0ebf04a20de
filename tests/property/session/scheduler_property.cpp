// A random walk: clients connect, send, read, wait, end and break off in any order, and the journal lags
// behind. Each client gets its replies in order, and all of them unless it breaks off or is killed. No reply
// leaves before the journal is durable up to its request's record. A client's bytes are read in the turn that
// sees them, unless the client waits for its own peer, the journal or an answer.
//
// SEPAL_SCHEDULER_STEPS: the number of steps of all walks. SEPAL_SCHEDULER_SEED: the seed of the first walk.
#include <sepal/session/scheduler.hpp>

#include <deque>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::scheduler_property {
namespace {

using namespace test;

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr std::size_t place_count = 5;
constexpr int steps_of_walk = 2000;

struct Expected {
  std::string reply;
  std::uint64_t position = 0;  // the reply may leave when the journal is durable up to here
  bool ran = false;
};

// A place for a client. When the client is gone, another client takes the place.
struct Place {
  std::size_t index = 0;  // of the client in the world
  std::deque<Expected> expected{};
  std::uint64_t requests_run = 0;
  bool broken_off = false;  // the peer broke off, or the client was killed: replies may be lost
};

class Walk {
 public:
  explicit Walk(std::uint64_t seed) : random_(seed), world_(place_count), places_(place_count) {
    for (std::size_t i = 0; i < place_count; ++i) places_[i].index = i;
    world_.turn({request({"BF.RESERVE", "k", "1e-12", "100000"})});
    world_.peer(0).received.clear();
    places_[0].requests_run = 1;
  }

  void step() {
    Place& place = places_[pick(place_count)];
    Peer& peer = world_.peer(place.index);
    switch (pick(40)) {
      case 0: peer.ended = true; return;
      case 1:
        if (pick(4) != 0) return;
        peer.broken = true;
        place.broken_off = true;
        return;
      case 2:
        if (pick(4) != 0) return;
        place.broken_off = true;
        world_.scheduler.kill(world_.id(place.index));
        world_.scheduler.release_replies(world_.progress);
        return replace_gone();
      case 3:
        if (peer.ended) return;
        peer.to_send += request({"QUIT"});
        peer.ended = true;
        place.expected.push_back({.reply = "+OK\r\n"});
        return;
      default: break;
    }
    switch (pick(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        if (!peer.ended) send(place);
        return;
      case 4: peer.room = pick(3) == 0 ? Peer::any_amount : pick(20); return;
      case 5: return turn();
      case 6: world_.ground.recording.awaited += pick(3); return;
      case 7: world_.ground.journal.durable = world_.ground.journal.durable + pick(4); return;
      case 8:
        world_.ground.recording.grants_left = static_cast<std::int64_t>(pick(4));
        ++world_.progress;
        return;
      default: return answer(place);
    }
  }

  // Makes every awaited event happen, and reports it once.
  void end() {
    world_.ground.recording.grants_left = 1'000'000;
    world_.ground.journal.durable = 1'000'000'000;
    ++world_.progress;
    for (int i = 0; i < 200; ++i) {
      for (Place& place : places_) {
        world_.peer(place.index).room = Peer::any_amount;
        answer(place);
      }
      turn();
    }
    REQUIRE_FALSE(world_.scheduler.has_more());
    REQUIRE_FALSE(world_.scheduler.awaits_journal());
    for (Place& place : places_) REQUIRE((place.broken_off || place.expected.empty()));
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }

  void send(Place& place) {
    std::string words;
    switch (pick(8)) {
      case 0:
        world_.peer(place.index).to_send += request({"SAVE"});
        place.expected.push_back({.reply = "+OK\r\n"});
        return;
      case 1:
      case 2:
      case 3:
        world_.peer(place.index).to_send += request({"BF.ADD", "k", std::to_string(++items_)});
        place.expected.push_back({.reply = ":1\r\n"});
        return;
      case 4: words = std::string(pick(3000), 'x'); break;
      default: words = std::to_string(++items_);
    }
    world_.peer(place.index).to_send += request({"ECHO", words});
    place.expected.push_back({.reply = "$" + std::to_string(words.size()) + "\r\n" + words + "\r\n"});
  }

  void answer(Place& place) {
    if (world_.peer(place.index).destroyed || world_.state(place.index) != State::waiting) return;
    world_.scheduler.answer(world_.id(place.index), [](resp::Reply& reply) { reply.ok(); });
    world_.scheduler.release_replies(world_.progress);
    look(place);
    replace_gone();
  }

  void turn() {
    world_.scheduler.begin_turn(world_.progress);
    for (Place& place : places_) tell_events(place);
    world_.finish();
    note_what_ran();
    for (Place& place : places_) {
      if (!world_.peer(place.index).destroyed) {
        REQUIRE(world_.state(place.index) != State::received);
        REQUIRE(world_.state(place.index) != State::kept);
      }
      look(place);
    }
    replace_gone();
  }

  void tell_events(Place& place) {
    Peer& peer = world_.peer(place.index);
    if (peer.destroyed) return;
    std::uint32_t events = peer.broken ? broken : 0;
    if (!peer.to_send.empty() || peer.ended) events |= readable & peer.watched;
    if (peer.ended) events |= peer_gone & peer.watched;
    if (peer.room > 0) events |= writable & peer.watched;
    if (events == 0) return;
    const std::size_t before = peer.to_send.size();
    world_.scheduler.ready(*world_.clients[place.index], events);
    if (!peer.broken && before > 0) REQUIRE((peer.to_send.size() < before) == ((events & readable) != 0));
  }

  // The replies of requests that ran in this turn wait for the journal's present position.
  void note_what_ran() {
    std::vector<command::ClientState*> clients;
    {
      const GateClosed closed(world_.ground.gate);
      world_.scheduler.collect(clients);
    }
    for (Place& place : places_) {
      const auto found =
          std::ranges::find(clients, world_.id(place.index), [](const auto* c) { return c->id; });
      if (found == clients.end()) continue;
      std::uint64_t ran = (*found)->request_count - place.requests_run;
      place.requests_run += ran;
      for (Expected& each : place.expected) {
        if (each.ran || ran == 0) continue;
        each.ran = true;
        if (each.reply.starts_with(":")) each.position = world_.ground.recording.awaited;
        --ran;
      }
    }
  }

  // Checks that the client got its next replies, and none before its journal position is durable.
  void look(Place& place) {
    Peer& peer = world_.peer(place.index);
    while (!peer.received.empty()) {
      REQUIRE_FALSE(place.expected.empty());
      Expected& next = place.expected.front();
      REQUIRE(next.position <= world_.ground.journal.durable);
      const std::size_t count = std::min(next.reply.size(), peer.received.size());
      REQUIRE(peer.received.compare(0, count, next.reply, 0, count) == 0);
      peer.received.erase(0, count);
      next.reply.erase(0, count);
      if (next.reply.empty()) place.expected.pop_front();
    }
  }

  void replace_gone() {
    for (Place& place : places_) {
      if (!world_.peer(place.index).destroyed) continue;
      look(place);
      REQUIRE((place.broken_off || place.expected.empty()));
      world_.add();
      place = {.index = world_.clients.size() - 1};
    }
  }

  std::mt19937_64 random_;
  SchedulerWorld world_;
  std::vector<Place> places_;
  std::uint64_t items_ = 0;
};

TEST_CASE("in a random walk no reply is lost, early or out of order") {
  const std::uint64_t steps = number_of("SEPAL_SCHEDULER_STEPS", 200'000);
  const std::uint64_t first = number_of("SEPAL_SCHEDULER_SEED", 1);
  for (std::uint64_t walk = 0; walk * steps_of_walk < steps; ++walk) {
    INFO("rerun: SEPAL_SCHEDULER_STEPS=1 SEPAL_SCHEDULER_SEED=" << first + walk);
    Walk one(first + walk);
    for (int step = 0; step < steps_of_walk; ++step) one.step();
    one.end();
  }
}

}  // namespace
}  // namespace sepal::session::scheduler_property
