// The state of a client after every event in every state.
#include <sepal/session/scheduler.hpp>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::scheduler_states_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string add = request({"BF.ADD", "k", "a"});
constexpr std::uint64_t position = 100;

// A state, its letter, and the state after a whole turn with each event and
// release_replies(): a letter for an event.
struct Row {
  State state;
  char letter;
  std::string_view after;  // "-": the client is gone; a blank: that cannot happen within a turn
};

// clang-format off
constexpr Row table[] = {
    // In the order of `events` below: bytes, peer ended, broken, room, little, nothing, durable, progress,
    // pause ends, answer, kill, idle, stop.
    {State::reading,   'R', "R--RRRRRRR--L"},
    {State::received,  'N', "RR-RRRRRRR   "},
    {State::queued,    'Q', "QQ-QQQQQQQ-QQ"},  // it has more requests than two batches: a turn leaves some
    {State::kept,      'K', "RR-RRRRRRR   "},
    {State::sending,   'S', "SS-LSSSSSS--S"},
    {State::waiting,   'W', "W--WWWWWWQ-W-"},
    {State::held,      'H', "HH-HHHRHHH-HH"},
    {State::put_off,   'O', "OO-OOOQQOO-OO"},
    {State::paused,    'P', "P--PPPPPQP-P-"},
    {State::lingering, 'L', "L--LLLLLLLL-L"},
};
// clang-format on

// Empty: the client is gone.
std::optional<State> state_of(char letter) {
  for (const Row& row : table)
    if (row.letter == letter) return row.state;
  return std::nullopt;
}

// A world with one client in the state. If the state exists only within a turn, that turn has not ended.
std::unique_ptr<SchedulerWorld> client_in(State state) {
  auto world = std::make_unique<SchedulerWorld>();
  switch (state) {
    case State::reading: break;
    case State::received:
      world->peer().to_send = ping;
      world->scheduler.begin_turn(0);
      world->scheduler.ready(*world->clients[0], readable);
      break;
    case State::queued: world->turn({repeated("PING\r\n", 5 * batch_requests_max)}); break;
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
    case State::waiting: world->turn({request({"SAVE"})}); break;
    case State::held:
      world->ground.recording.awaited = position;
      world->turn({add});
      break;
    case State::put_off:
      world->ground.recording.grants_left = 0;
      world->turn({add});
      break;
    case State::paused: world->turn({request({"CLIENT", "PAUSE", "1000"}) + ping}); break;
    case State::lingering: world->turn({request({"QUIT"})}); break;
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
    case State::lingering: return readable;
    case State::sending:
    case State::waiting:
    case State::held:
    case State::put_off: return 0;
    case State::paused: return peer_gone;
    case State::received:
    case State::queued:
    case State::kept: break;
  }
  return std::nullopt;
}

// A turn with these events. If a turn has not ended, the events come in that turn.
void happens(SchedulerWorld& world, State state, std::uint32_t events) {
  if (is_within_turn(state)) {
    world.scheduler.ready(*world.clients[0], events);
    return;
  }
  world.happens(events);
}

struct Event {
  const char* name;
  void (*happen)(SchedulerWorld& world, State state);
};

constexpr Event events[] = {
    {"the client has sent a PING",
     [](SchedulerWorld& world, State state) {
       world.peer().to_send += ping;
       happens(world, state, readable);
     }},
    {"its peer sends no more",
     [](SchedulerWorld& world, State state) {
       world.peer().ended = true;
       happens(world, state, readable | peer_gone);
     }},
    {"its stream is broken",
     [](SchedulerWorld& world, State state) {
       world.peer().broken = true;
       happens(world, state, readable | broken | peer_gone);
     }},
    {"its stream takes everything",
     [](SchedulerWorld& world, State state) {
       world.peer().room = test::Peer::any_amount;
       happens(world, state, writable);
     }},
    {"its stream takes one byte",
     [](SchedulerWorld& world, State state) {
       world.peer().room = 1;
       happens(world, state, writable);
     }},
    {"nothing has happened",
     [](SchedulerWorld& world, State state) {
       if (!is_within_turn(state)) world.turn({});
     }},
    {"the journal is durable up to its position, and has made progress",
     [](SchedulerWorld& world, State /*state*/) {
       world.ground.journal.durable = position;
       ++world.progress;
     }},
    {"the journal has room", [](SchedulerWorld& world, State /*state*/) { ++world.progress; }},
    {"a pause has ended",
     [](SchedulerWorld& world, State state) {
       if (!is_within_turn(state)) world.scheduler.end_pause(SteadyTime::max());
     }},
    {"a job that it may wait for is done",
     [](SchedulerWorld& world, State /*state*/) {
       world.scheduler.answer(world.id(), [](resp::Reply& reply) { reply.ok(); });
     }},
    {"it is killed", [](SchedulerWorld& world, State /*state*/) { world.scheduler.kill(world.id()); }},
    {"much time has passed, and idle clients are closed",
     [](SchedulerWorld& world, State /*state*/) {
       world.scheduler.sweep(StandingClock::now() + std::chrono::hours(1), {.idle = std::chrono::seconds(1)});
     }},
    {"the server stops, and the peer closes its side",
     [](SchedulerWorld& world, State /*state*/) { world.scheduler.stop(); }},
};

void check(State state, const Event& event, std::optional<State> expected) {
  const auto world = client_in(state);
  event.happen(*world, state);
  if (is_within_turn(state)) {
    world->finish();
  } else {
    world->scheduler.release_replies(world->progress);
  }
  INFO("state " << static_cast<int>(state) << " event: " << event.name);
  REQUIRE(world->peer().destroyed == !expected.has_value());
  CHECK(world->gone == (expected ? 0 : 1));
  CHECK(world->left == (!expected || *expected == State::lingering ? 1 : 0));
  if (!expected) return;
  CHECK(static_cast<int>(world->state()) == static_cast<int>(*expected));
  if (const auto watched = watched_in(*expected))
    CHECK(world->peer().watched == (*watched | (world->bytes_unsent() > 0 ? writable : 0)));
}

TEST_CASE("every event in every state leads to the state of the table") {
  static_assert(std::size(table) == static_cast<std::size_t>(State::lingering) + 1);
  for (std::size_t number = 0; number < std::size(table); ++number) {
    const Row& row = table[number];
    REQUIRE(static_cast<std::size_t>(row.state) == number);
    REQUIRE(row.after.size() == std::size(events));
    for (std::size_t event = 0; event < std::size(events); ++event)
      if (row.after[event] != ' ') check(row.state, events[event], state_of(row.after[event]));
  }
}

}  // namespace
}  // namespace sepal::session::scheduler_states_test
