// The state of a client after every event in every state.
#include <sepal/session/scheduler.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::scheduler_states_test {
namespace {

using test::repeated;
using test::request;
using test::SchedulerWorld;
using test::StandingClock;

const std::string ping = request({"PING"});
const std::string add = request({"BF.ADD", "k", "a"});
constexpr std::uint64_t position = 100;

// Short names of the states, so that a row of the table is short. An empty state: the client is gone.
using After = std::optional<State>;
constexpr After gone{};
constexpr After reading{State::reading};
constexpr After queued{State::queued};
constexpr After sending{State::sending};
constexpr After waiting{State::waiting};
constexpr After held{State::held};
constexpr After put_off{State::put_off};
constexpr After paused{State::paused};
constexpr After lingering{State::lingering};

// The state after a whole turn with the event, and release_replies().
struct Row {
  After bytes;       // the client has sent a PING
  After peer_ended;  // its peer sends no more
  After broken;      // its stream is broken
  After room;        // its stream takes everything
  After little;      // its stream takes one byte
  After nothing;     // nothing has happened
  After durable;     // the journal is durable up to its position, and has made progress
  After progress;    // the journal has room
  After pause_ends;  // a pause has ended
  After answer;      // a job that it may wait for is done
  After kill;
  After idle;  // much time has passed, and idle clients are closed
  After stop;  // the server stops, and the peer closes its side
};

// The compiler asks for a row for each state (-Wswitch).
constexpr Row row_of(State state) {
  switch (state) {
    case State::reading:
      return {.bytes = reading,
              .peer_ended = gone,
              .broken = gone,
              .room = reading,
              .little = reading,
              .nothing = reading,
              .durable = reading,
              .progress = reading,
              .pause_ends = reading,
              .answer = reading,
              .kill = gone,
              .idle = gone,
              .stop = lingering};
    case State::received:
      return {.bytes = reading,
              .peer_ended = reading,
              .broken = gone,
              .room = reading,
              .little = reading,
              .nothing = reading,
              .durable = reading,
              .progress = reading,
              .pause_ends = reading,
              .answer = reading,
              .kill = {},
              .idle = {},
              .stop = {}};
    // Its unrun requests are more than two batches, so one turn leaves some of them.
    case State::queued:
      return {.bytes = queued,
              .peer_ended = queued,
              .broken = gone,
              .room = queued,
              .little = queued,
              .nothing = queued,
              .durable = queued,
              .progress = queued,
              .pause_ends = queued,
              .answer = queued,
              .kill = gone,
              .idle = queued,
              .stop = queued};
    case State::kept:
      return {.bytes = reading,
              .peer_ended = reading,
              .broken = gone,
              .room = reading,
              .little = reading,
              .nothing = reading,
              .durable = reading,
              .progress = reading,
              .pause_ends = reading,
              .answer = reading,
              .kill = {},
              .idle = {},
              .stop = {}};
    case State::sending:
      return {.bytes = sending,
              .peer_ended = sending,
              .broken = gone,
              .room = lingering,
              .little = sending,
              .nothing = sending,
              .durable = sending,
              .progress = sending,
              .pause_ends = sending,
              .answer = sending,
              .kill = gone,
              .idle = gone,
              .stop = sending};
    case State::waiting:
      return {.bytes = waiting,
              .peer_ended = gone,
              .broken = gone,
              .room = waiting,
              .little = waiting,
              .nothing = waiting,
              .durable = waiting,
              .progress = waiting,
              .pause_ends = waiting,
              .answer = queued,
              .kill = gone,
              .idle = waiting,
              .stop = gone};
    case State::held:
      return {.bytes = held,
              .peer_ended = held,
              .broken = gone,
              .room = held,
              .little = held,
              .nothing = held,
              .durable = reading,
              .progress = held,
              .pause_ends = held,
              .answer = held,
              .kill = gone,
              .idle = held,
              .stop = held};
    case State::put_off:
      return {.bytes = put_off,
              .peer_ended = put_off,
              .broken = gone,
              .room = put_off,
              .little = put_off,
              .nothing = put_off,
              .durable = queued,
              .progress = queued,
              .pause_ends = put_off,
              .answer = put_off,
              .kill = gone,
              .idle = put_off,
              .stop = put_off};
    case State::paused:
      return {.bytes = paused,
              .peer_ended = paused,
              .broken = gone,
              .room = paused,
              .little = paused,
              .nothing = paused,
              .durable = paused,
              .progress = paused,
              .pause_ends = queued,
              .answer = paused,
              .kill = gone,
              .idle = paused,
              .stop = gone};
    case State::lingering:
      return {.bytes = lingering,
              .peer_ended = gone,
              .broken = gone,
              .room = lingering,
              .little = lingering,
              .nothing = lingering,
              .durable = lingering,
              .progress = lingering,
              .pause_ends = lingering,
              .answer = lingering,
              .kill = lingering,
              .idle = gone,
              .stop = lingering};
  }
  return {};
}

// The last value of State. The test of the table goes up to it.
constexpr State last_state = State::lingering;

// A world with one client in the state. If the state exists only within a turn, that turn has not ended.
std::unique_ptr<SchedulerWorld> client_in(State state) {
  auto world = std::make_unique<SchedulerWorld>();
  switch (state) {
    case State::reading:
      break;
    case State::received:
      world->peer().to_send = ping;
      world->scheduler.begin_turn(0);
      world->scheduler.ready(*world->clients[0], readable);
      break;
    case State::queued:
      world->turn({repeated("PING\r\n", 5 * batch_requests_max)});
      break;
    case State::kept: {
      // Too many bytes for a round: the client runs at once, and long enough that its replies are kept.
      const StandingClock::Slow slow(long_run_min);
      world->peer().to_send = repeated("PING\r\n", round_bytes_max / 6 + 1);
      world->scheduler.begin_turn(0);
      world->scheduler.ready(*world->clients[0], readable);
      break;
    }
    case State::sending:
      world->peer().room = 0;
      world->turn({request({"QUIT"})});
      break;
    case State::waiting:
      world->turn({request({"SAVE"})});
      break;
    case State::held:
      world->ground.recording.awaited = position;
      world->turn({add});
      break;
    case State::put_off:
      world->ground.recording.grants_left = 0;
      world->turn({add});
      break;
    case State::paused:
      world->turn({request({"CLIENT", "PAUSE", "1000"}) + ping});
      break;
    case State::lingering:
      world->turn({request({"QUIT"})});
      break;
  }
  REQUIRE(world->state() == state);
  return world;
}

// Whether the state exists only within a turn.
bool is_within_turn(State state) {
  return state == State::received || state == State::kept;
}

// The events for which the stream of a client in this state is watched, beside `writable` while replies wait.
// Empty if it does not matter.
std::optional<std::uint32_t> watched_in(State state) {
  switch (state) {
    case State::reading:
    case State::lingering:
      return readable;
    case State::sending:
    case State::waiting:
    case State::held:
    case State::put_off:
    case State::paused:
      return 0;
    case State::received:
    case State::queued:
    case State::kept:
      break;
  }
  return std::nullopt;
}

void check(State state, const char* event, After expected, const auto& happen) {
  const auto world = client_in(state);
  happen(*world);
  if (is_within_turn(state)) {
    world->finish();
  } else {
    world->scheduler.release_replies(world->progress);
  }
  INFO("state " << static_cast<int>(state) << " event " << event);
  REQUIRE(world->peer().destroyed == !expected.has_value());
  CHECK(world->gone == (expected ? 0 : 1));
  CHECK(world->left == (!expected || *expected == State::lingering ? 1 : 0));
  if (!expected) return;
  CHECK(static_cast<int>(world->state()) == static_cast<int>(*expected));
  if (const auto events = watched_in(*expected))
    CHECK(world->peer().watched == (*events | (world->bytes_unsent() > 0 ? writable : 0)));
}

// A turn with these events. If a turn has not ended, the events come in that turn.
void happens(SchedulerWorld& world, State state, std::uint32_t events) {
  if (is_within_turn(state)) {
    world.scheduler.ready(*world.clients[0], events);
    return;
  }
  world.happens(events);
}

TEST_CASE("every event in every state leads to the state of the table", "[session]") {
  for (int number = 0; number <= static_cast<int>(last_state); ++number) {
    const auto state = static_cast<State>(number);
    const Row row = row_of(state);
    check(state, "bytes", row.bytes, [&](SchedulerWorld& world) {
      world.peer().to_send += ping;
      happens(world, state, readable);
    });
    check(state, "peer ended", row.peer_ended, [&](SchedulerWorld& world) {
      world.peer().ended = true;
      happens(world, state, readable | peer_gone);
    });
    check(state, "broken", row.broken, [&](SchedulerWorld& world) {
      world.peer().broken = true;
      happens(world, state, readable | broken | peer_gone);
    });
    check(state, "room", row.room, [&](SchedulerWorld& world) {
      world.peer().room = test::Peer::any_amount;
      happens(world, state, writable);
    });
    check(state, "little", row.little, [&](SchedulerWorld& world) {
      world.peer().room = 1;
      happens(world, state, writable);
    });
    check(state, "nothing", row.nothing, [&](SchedulerWorld& world) {
      if (!is_within_turn(state)) world.turn({});
    });
    check(state, "durable", row.durable, [&](SchedulerWorld& world) {
      world.ground.journal.durable = position;
      ++world.progress;
    });
    check(state, "progress", row.progress, [&](SchedulerWorld& world) { ++world.progress; });
    check(state, "pause ends", row.pause_ends, [&](SchedulerWorld& world) {
      if (!is_within_turn(state)) world.scheduler.end_pause(SteadyTime::max());
    });
    check(state, "answer", row.answer, [&](SchedulerWorld& world) {
      world.scheduler.answer(world.id(), [](resp::Reply& reply) { reply.ok(); });
    });
    if (is_within_turn(state)) continue;
    check(state, "kill", row.kill, [&](SchedulerWorld& world) { world.scheduler.kill(world.id()); });
    check(state, "idle", row.idle, [&](SchedulerWorld& world) {
      world.scheduler.sweep(StandingClock::now() + std::chrono::hours(1), {.idle = std::chrono::seconds(1)});
    });
    check(state, "stop", row.stop, [&](SchedulerWorld& world) { world.scheduler.stop(); });
  }
}

}  // namespace
}  // namespace sepal::session::scheduler_states_test
