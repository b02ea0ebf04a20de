// Which clients leave a worker for another one, and what goes with them.
#include <sepal/session/scheduler.hpp>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::scheduler_moves_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});

// Which of its clients the scheduler lets go, asked about all in their order.
std::vector<std::size_t> that_may_move(SchedulerWorld& world) {
  const GateEntered inside(world.environment.gate, world.environment.gate_side);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < world.clients.size(); ++i)
    if (world.scheduler.may_move(*world.clients[i])) found.push_back(i);
  return found;
}

using Indexes = std::vector<std::size_t>;

TEST_CASE("a share of the clients may move, each is asked about once, and the first stays") {
  SchedulerWorld world(6);
  CHECK(that_may_move(world).empty());
  world.scheduler.move_share(0.5);
  CHECK(that_may_move(world) == Indexes{1, 3, 5});
  CHECK(that_may_move(world).empty());
  world.scheduler.move_share(0.25);
  CHECK(that_may_move(world) == Indexes{3});
  world.scheduler.move_share(1);
  CHECK(that_may_move(world) == Indexes{0, 1, 2, 3, 4, 5});
  CHECK(that_may_move(world) == Indexes{0, 1, 2, 3, 4, 5});
  world.scheduler.move_share(0);
  CHECK(that_may_move(world).empty());
}

TEST_CASE("the first client with long batches stays, and the others leave it") {
  SchedulerWorld world(4);
  {
    const StandingClock::Slow slow(long_batch_min);
    world.turn({"", ping});
  }
  const auto squares = static_cast<std::uint64_t>(long_batch_min.count() * long_batch_min.count());
  CHECK(world.scheduler.long_batches() >= squares);
  world.scheduler.move_share(0.5);
  CHECK(that_may_move(world) == Indexes{0, 2});
}

TEST_CASE("the only other client leaves one with long batches at once") {
  SchedulerWorld world(2);
  {
    const StandingClock::Slow slow(long_batch_min);
    world.turn({"", ping});
  }
  world.scheduler.move_share(0.5);
  CHECK(that_may_move(world) == Indexes{0});
  // No batch took long since: the first stays.
  world.scheduler.move_share(0.5);
  CHECK(that_may_move(world).empty());
}

TEST_CASE("a client moves between two requests, and not while anything of it is left") {
  SchedulerWorld world;
  const std::string begun = GENERATE(as<std::string>(), request({"MULTI"}), request({"WATCH", "k"}),
                                     ping.substr(0, 9), request({"SAVE"}), request({"MONITOR"}));
  world.turn({begun});
  world.scheduler.move_share(1);
  CHECK(that_may_move(world).empty());
}

TEST_CASE("a client whose replies wait does not move") {
  SchedulerWorld world;
  world.peer().room = 0;
  world.turn({ping});
  world.scheduler.move_share(1);
  CHECK(that_may_move(world).empty());
  world.peer().room = Peer::any_amount;
  world.happens(writable);
  CHECK(that_may_move(world) == Indexes{0});
}

TEST_CASE("a client that is to be closed does not move") {
  SchedulerWorld world;
  world.scheduler.move_share(1);
  {
    const GateClosed closed(world.ground.gate);
    std::vector<command::ClientState*> states;
    world.scheduler.collect(states);
    states.at(0)->to_be_closed = true;
  }
  CHECK(that_may_move(world).empty());
}

TEST_CASE("a client that moves takes its state and its stream along, and counts as before") {
  SchedulerWorld world;
  world.turn({request({"HELLO", "3"}) + request({"SELECT", "2"})});
  world.peer().received.clear();
  world.scheduler.move_share(1);
  {
    const GateEntered inside(world.environment.gate, world.environment.gate_side);
    Client& client = *world.clients[0];
    REQUIRE(world.scheduler.may_move(client));
    Scheduler::Moved moved = world.scheduler.move_out(client);
    CHECK(world.scheduler.empty());
    CHECK(moved.client.id == world.id());
    CHECK(moved.client.bytes_read > 0);
    world.clients[0] = &world.scheduler.add(std::move(moved.stream), std::move(moved.client), moved.network);
  }
  CHECK(world.left == 0);
  CHECK(world.gone == 0);
  CHECK(world.happenings.destroyed == 0);
  world.turn({request({"GET", "absent"})});
  CHECK(world.received(0) == "_\r\n");
  CHECK(world.environment.services.buffers.total() == 0);
}

}  // namespace
}  // namespace sepal::session::scheduler_moves_test
