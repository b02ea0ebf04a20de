// The scheduler of one worker, as its clients see it.
#include <sepal/command/users/users.hpp>
#include <sepal/session/first_requests.hpp>
#include <sepal/session/scheduler.hpp>

#include "support/catch.hpp"
#include "unit/session/scheduler_world.hpp"

namespace sepal::session::scheduler_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string inline_ping = "PING\r\n";
const std::string add = request({"BF.ADD", "k", "a"});

// Too many bytes for a round.
std::string long_pipeline() {
  return repeated(inline_ping, round_bytes_max / inline_ping.size() + 1);
}

TEST_CASE("replies of a round leave when all of its clients have run") {
  SchedulerWorld world(2);
  world.scheduler.begin_turn(0);
  for (std::size_t i = 0; i < 2; ++i) {
    world.peer(i).to_send = ping;
    world.scheduler.ready(*world.clients[i], readable);
    CHECK(world.state(i) == State::received);
  }
  CHECK(world.happenings.sent.empty());
  world.finish();
  // Both requests had run when the first reply left.
  CHECK(world.happenings.sent == std::vector<Sent>{{1, 2}, {2, 2}});
  CHECK(world.received(0) == pong);
  CHECK(world.received(1) == pong);
}

TEST_CASE("replies of short batches do not wait for a long pipeline of their round") {
  SchedulerWorld world(3);
  const StandingClock::Slow slow(std::chrono::microseconds(1));
  world.turn({ping, ping, long_pipeline()});
  REQUIRE(world.happenings.sent.size() == 3);
  CHECK(world.happenings.sent[0] == Sent{1, 2});
  CHECK(world.happenings.sent[1] == Sent{2, 2});
  CHECK(world.happenings.sent[2].id == 3);
}

// Each batch takes as long as it may: the sum is what a client that asks now has to wait.
TEST_CASE("the more clients have pipelines to run, the shorter is the batch of each") {
  const std::size_t clients = GENERATE(std::size_t{1}, std::size_t{4}, std::size_t{40});
  SchedulerWorld world(clients);
  const std::string pipeline = repeated(inline_ping, 12 * batch_requests_max);
  const StandingClock::Slow slow(std::chrono::microseconds(2));
  world.turn(std::vector<std::string>(clients, pipeline));
  for (int turns = 0; turns < 3; ++turns) {
    const std::uint64_t before = world.environment.stats.requests.get();
    const SteadyTime began = StandingClock::now();
    world.turn({});
    const auto took = StandingClock::now() - began;
    const std::uint64_t requests = world.environment.stats.requests.get() - before;
    INFO(clients << " clients ran " << requests << " requests");
    CHECK(requests >= clients * batch_clock_period);
    CHECK(took <= 2 * std::max<std::chrono::nanoseconds>(turn_time_max, clients * batch_time_min));
  }
}

TEST_CASE("replies of long batches are kept beyond their round, for a bounded time") {
  SchedulerWorld world(kept_max);
  const auto run_all = [&world](std::chrono::microseconds look) {
    const StandingClock::Slow slow(look);
    world.happenings.sent.clear();
    world.scheduler.begin_turn(0);
    std::size_t first_sent_behind = 0;  // how many clients had run when the first reply left
    for (std::size_t i = 0; i < kept_max && first_sent_behind == 0; ++i) {
      world.peer(i).to_send = long_pipeline();
      world.scheduler.ready(*world.clients[i], readable);
      if (!world.happenings.sent.empty()) first_sent_behind = i + 1;
    }
    CHECK(world.happenings.sent.size() == first_sent_behind);
    world.finish();
    return first_sent_behind;
  };
  CHECK(run_all(long_run_min / 10) > 2);
  CHECK(run_all(kept_time_max) == 2);
}

TEST_CASE("a client with a long pipeline runs one batch in each turn, and other clients run in between") {
  SchedulerWorld world(2);
  const std::size_t count = 5 * batch_requests_max - 1;
  world.turn({repeated(inline_ping, count), ""});
  std::string received = world.received(0);
  while (world.scheduler.has_more()) {
    CHECK(received.size() < count * pong.size());
    world.turn({"", ping});
    CHECK(world.received(1) == pong);
    const std::string more = world.received(0);
    CHECK(more.size() <= batch_requests_max * pong.size());
    received += more;
  }
  CHECK((received == repeated(pong, count)));
}

TEST_CASE("if a stream takes a part of the replies, the rest follows when it takes more") {
  SchedulerWorld world;
  world.peer().room = 3;
  world.turn({ping + ping});
  CHECK(world.received() == pong.substr(0, 3));
  CHECK(world.state() == State::reading);
  CHECK(world.peer().watched == (readable | writable));
  CHECK(world.bytes_unsent() == 2 * pong.size() - 3);
  CHECK(world.services.buffers.replies() == 2 * pong.size() - 3);
  // The stream takes nothing, and the scheduler reads on.
  world.turn({ping});
  CHECK(world.received().empty());
  CHECK(world.bytes_unsent() == 3 * pong.size() - 3);
  world.peer().room = Peer::any_amount;
  world.happens(writable);
  CHECK(world.received() == (pong + pong + pong).substr(3));
  CHECK(world.peer().watched == readable);
  CHECK(world.bytes_unsent() == 0);
  CHECK(world.services.buffers.replies() == 0);
  world.turn({ping});
  CHECK(world.received() == pong);
}

TEST_CASE("a client that sends everything before it reads anything is served to the end") {
  SchedulerWorld world;
  world.peer().room = 0;
  constexpr std::size_t count = 5000;
  std::string expected;
  for (int turn = 0; turn < 20; ++turn) {
    world.turn({repeated(request({"ECHO", std::string(100, static_cast<char>('a' + turn))}), count / 20)});
    while (world.scheduler.has_more()) world.turn({});
    expected += repeated("$100\r\n" + std::string(100, static_cast<char>('a' + turn)) + "\r\n", count / 20);
  }
  CHECK(world.bytes_unsent() >= expected.size());
  CHECK(world.bytes_unsent() <= 2 * expected.size());  // with the room for more
  std::string received;
  while (received.size() < expected.size()) {
    world.peer().room = 10'000;
    world.happens(writable);
    const std::string more = world.received();
    REQUIRE_FALSE(more.empty());
    received += more;
  }
  CHECK((received == expected));
}

TEST_CASE("what a client has not read goes with it") {
  SchedulerWorld world;
  world.peer().room = 1;
  world.turn({ping});
  CHECK(world.services.buffers.replies() == pong.size() - 1);
  world.scheduler.kill(world.id());
  CHECK(world.services.buffers.replies() == 0);
}

TEST_CASE("a stream that breaks while the outbox is sent leaves no bytes in the account") {
  SchedulerWorld world;
  world.peer().room = 0;
  world.turn({repeated(ping, 100)});
  REQUIRE(world.services.buffers.replies() == 100 * pong.size());
  world.peer().room = 50;
  world.peer().breaks_when_full = true;
  world.happens(writable);
  CHECK(world.peer().destroyed);
  CHECK(world.services.buffers.replies() == 0);
}

TEST_CASE("a client whose command answers later reads its earlier replies meanwhile") {
  SchedulerWorld world;
  world.peer().room = 1;
  world.turn({ping + request({"SAVE"})});
  CHECK(world.state() == State::waiting);
  world.peer().room = Peer::any_amount;
  world.happens(writable);
  CHECK(world.received() == pong);
  CHECK(world.state() == State::waiting);
  world.scheduler.answer(world.id(), [](resp::Reply& reply) { reply.ok(); });
  world.turn({});
  CHECK(world.received() == "+OK\r\n");
}

TEST_CASE("replies are held until the journal is durable, in the order of positions") {
  SchedulerWorld world(3);
  world.ground.recording.awaited = 200;
  world.turn({add});
  world.ground.recording.awaited = 100;
  world.turn({"", add + ping});
  world.turn({"", "", ping});
  CHECK(world.received(2) == pong);
  CHECK(world.scheduler.awaits_journal());
  world.ground.journal.durable = 100;
  world.scheduler.release_replies(world.progress);
  CHECK(world.received(0).empty());
  CHECK(world.received(1) == ":0\r\n" + pong);
  world.ground.journal.durable = 200;
  world.scheduler.release_replies(world.progress);
  CHECK(world.received(0) == ":1\r\n");
  CHECK_FALSE(world.scheduler.awaits_journal());
}

TEST_CASE("a request waits for room in the journal, and is run once") {
  SchedulerWorld world;
  world.ground.recording.grants_left = 0;
  world.turn({ping + add + ping});
  CHECK(world.received() == pong);
  CHECK(world.state() == State::put_off);
  CHECK(world.scheduler.awaits_journal());
  world.turn({});
  CHECK(world.state() == State::put_off);
  world.ground.recording.grants_left = 100;
  ++world.progress;
  world.turn({});
  CHECK(world.received() == ":1\r\n" + pong);
  CHECK(world.ground.recording.operations().size() == 2);
}

TEST_CASE("progress of the journal while earlier replies are sent is not missed") {
  SchedulerWorld world;
  world.ground.recording.grants_left = 0;
  world.peer().room = 1;
  world.turn({ping + add});
  REQUIRE(world.state() == State::put_off);
  world.ground.recording.grants_left = 100;
  ++world.progress;
  world.turn({});
  world.peer().room = Peer::any_amount;
  world.happens(writable);
  world.finish();
  CHECK(world.received() == pong + ":1\r\n");
}

TEST_CASE("progress of the journal while earlier replies are held is not missed") {
  SchedulerWorld world;
  world.turn({request({"BF.RESERVE", "k", "0.01", "100"})});
  CHECK(world.received() == "+OK\r\n");
  world.ground.recording.awaited = 100;
  world.ground.recording.grants_left = 1;
  world.turn({add + ping + request({"BF.ADD", "k", "b"})});
  REQUIRE(world.state() == State::held);
  world.ground.recording.grants_left = 100;
  world.ground.journal.durable = 100;
  ++world.progress;
  world.scheduler.release_replies(world.progress);
  CHECK(world.scheduler.has_more());
  world.turn({});
  CHECK(world.received() == ":1\r\n" + pong + ":1\r\n");
}

TEST_CASE("a late answer follows the replies that were sent, held or not taken before it") {
  const auto done = [](resp::Reply& reply) { reply.ok(); };
  const std::string save = request({"SAVE"});
  SECTION("while it waits") {
    SchedulerWorld world;
    world.turn({ping + save + ping});
    CHECK(world.received() == pong);
    world.scheduler.answer(1, done);
    world.turn({});
    CHECK(world.received() == "+OK\r\n" + pong);
  }
  SECTION("while earlier replies are sent") {
    SchedulerWorld world;
    world.peer().room = 1;
    world.turn({ping + save + ping});
    world.scheduler.answer(1, done);
    world.peer().room = Peer::any_amount;
    world.happens(writable);
    world.turn({});
    CHECK(world.received() == pong + "+OK\r\n" + pong);
  }
  SECTION("while earlier replies are held") {
    SchedulerWorld world;
    world.ground.recording.awaited = 100;
    world.turn({add + save + ping});
    world.scheduler.answer(1, done);
    world.scheduler.release_replies(0);
    CHECK(world.received().empty());
    world.ground.journal.durable = 100;
    world.turn({});
    world.turn({});
    CHECK(world.received() == ":1\r\n+OK\r\n" + pong);
  }
  SECTION("when nothing waits") {
    SchedulerWorld world;
    world.scheduler.answer(1, done);
    world.scheduler.answer(77, done);
    world.turn({ping});
    CHECK(world.received() == pong);
  }
}

TEST_CASE("the last reply is sent, further bytes of the peer are thrown away, then the client is removed") {
  SchedulerWorld world;
  world.turn({ping + request({"QUIT"}) + ping});
  CHECK(world.received() == pong + "+OK\r\n");
  CHECK(world.state() == State::lingering);
  CHECK(world.left == 1);
  world.turn({ping});
  CHECK(world.received().empty());
  CHECK(world.gone == 0);
  const SteadyTime now = StandingClock::now();
  world.scheduler.sweep(now, {.idle = std::chrono::seconds(0)});
  CHECK(world.gone == 0);
  world.scheduler.sweep(now + linger_max, {.idle = std::chrono::seconds(0)});
  CHECK(world.gone == 1);
  CHECK(world.left == 1);
  CHECK(world.scheduler.empty());
}

TEST_CASE("a client that must log in and has not is closed when its time is over") {
  SchedulerWorld world(1);
  world.services.users->set_default_password("secret");
  world.add(false);
  world.add(false);
  const Patience patience{.login = std::chrono::seconds(60)};
  world.scheduler.sweep(StandingClock::now() + std::chrono::seconds(60), patience);
  CHECK(world.gone == 0);
  world.turn({"", request({"AUTH", "secret"}), request({"AUTH", "wrong"})});
  world.scheduler.sweep(StandingClock::now() + std::chrono::seconds(61), {});
  CHECK(world.gone == 0);
  world.scheduler.sweep(StandingClock::now() + std::chrono::seconds(61), patience);
  CHECK(world.gone == 1);
  CHECK(world.peer(2).destroyed);
  CHECK(world.services.buffers.slow_strangers() == 1);
  CHECK(world.services.buffers.large_strangers() == 0);
}

TEST_CASE("the unfinished requests of strangers are bounded together, those of others are not") {
  constexpr std::size_t bytes_each = 100'000;
  constexpr std::size_t count = command::strangers_bytes_max / bytes_each + 2;
  std::string unfinished = "*10\r\n$4\r\nAUTH\r\n";
  while (unfinished.size() < bytes_each) unfinished += "$16384\r\n" + std::string(16384, 'x') + "\r\n";
  unfinished.resize(bytes_each);
  SchedulerWorld world(0);
  const std::vector<std::string> all(count, unfinished);
  SECTION("strangers") {
    world.services.users->set_default_password("secret");
    for (std::size_t i = 0; i < count; ++i) world.add(false);
    world.turn(all);
    CHECK(world.services.buffers.strangers() <= command::strangers_bytes_max);
    CHECK(world.services.buffers.strangers() == world.services.buffers.requests());
    CHECK(world.services.buffers.large_strangers() > 0);
    CHECK(world.services.buffers.slow_strangers() == 0);
    CHECK(world.peer(count - 1).received.starts_with("-ERR clients that have not logged in"));
    // The one that is closed is the one that sent too much: the first ones go on.
    CHECK(world.state(0) == State::reading);
  }
  SECTION("clients that need not log in") {
    for (std::size_t i = 0; i < count; ++i) world.add();
    world.turn(all);
    CHECK(world.services.buffers.strangers() == 0);
    CHECK(world.services.buffers.requests() >= count * bytes_each);
    CHECK(world.services.buffers.large_strangers() == 0);
  }
}

TEST_CASE("the memory of requests is counted until they have run or their client is gone") {
  SchedulerWorld world(2);
  const std::string item(100'000, 'x');
  const std::string echo = request({"ECHO", item});
  world.turn({echo.substr(0, 50'000), echo.substr(0, 60'000)});
  CHECK(world.services.buffers.requests() >= 110'000);
  world.turn({echo.substr(50'000)});
  world.happens(readable);  // what did not fit into the memory of the first look
  CHECK(world.received() == "$100000\r\n" + item + "\r\n");
  CHECK(world.services.buffers.requests() < 100'000);
  world.scheduler.kill(2);
  CHECK(world.services.buffers.requests() == 0);
}

TEST_CASE("each look notes the most that a client has unparsed and unsent") {
  SchedulerWorld world(2);
  world.peer(1).room = 2;
  world.turn({"*1\r\n$100\r\nxxxx", ping});
  CHECK(world.environment.stats.unparsed_peak.get() == 0);
  world.scheduler.sweep(StandingClock::now(), {.idle = std::chrono::seconds(0)});
  CHECK(world.environment.stats.unparsed_peak.get() == 14);
  CHECK(world.environment.stats.unsent_peak.get() == pong.size() - 2);
}

TEST_CASE("a request that is too long is counted, and other broken requests are not") {
  SchedulerWorld world(2);
  world.services.options.parser.request_bytes_max = 1000;
  world.turn({"*1\r\n$1001\r\n", "*1\r\nx\r\n"});
  CHECK(world.received(0).starts_with("-ERR Protocol error: request exceeds the limit of 1000 bytes"));
  CHECK(world.received(1).starts_with("-ERR Protocol error: expected '$'"));
  CHECK(world.environment.stats.too_long_requests.get() == 1);
}

TEST_CASE("a client without need to linger, or whose peer has ended, is removed at once") {
  SchedulerWorld world(2);
  world.peer(0).lingers = false;
  world.turn({request({"QUIT"})});
  CHECK(world.peer(0).destroyed);
  world.peer(1).ended = true;
  world.happens(readable, 1);
  CHECK(world.peer(1).destroyed);
  CHECK(world.received(0) == "+OK\r\n");
  CHECK(world.gone == 2);
}

TEST_CASE("a peer that has ended is still answered") {
  SchedulerWorld world;
  world.peer().ended = true;
  world.turn({ping});
  CHECK(world.received() == pong);
  world.happens(readable);
  CHECK(world.peer().destroyed);
}

TEST_CASE("a stop runs the requests that have arrived from any number of clients, and removes the clients") {
  SchedulerWorld world(2 * round_max + 3);
  for (std::size_t i = 0; i < world.peers.size(); ++i) world.peer(i).to_send = ping;
  world.turn({request({"SAVE"})});
  world.peer(0).to_send.clear();
  world.scheduler.stop();
  world.scheduler.release_replies(0);
  CHECK(world.peer(0).destroyed);
  for (std::size_t i = 1; i < world.peers.size(); ++i) CHECK(world.received(i) == pong);
  for (auto& peer : world.peers) peer->acknowledged = true;
  world.scheduler.sweep(StandingClock::now(), {.idle = std::chrono::seconds(0)});
  CHECK(world.scheduler.empty());
}

TEST_CASE("a stop waits for the journal, but not for ever") {
  SchedulerWorld world(2);
  world.ground.recording.awaited = 100;
  world.turn({add, add});
  world.scheduler.stop();
  world.scheduler.release_replies(0);
  CHECK(world.state(0) == State::held);
  CHECK(world.scheduler.cut_off() == 2);
  CHECK(world.scheduler.empty());
  CHECK(world.left == 2);
  CHECK(world.gone == 2);
}

TEST_CASE("an event for a client that has gone does no harm") {
  SchedulerWorld world(4);
  world.turn({repeated(inline_ping, 5 * batch_requests_max)});
  world.ground.recording.awaited = 100;
  world.turn({"", add});
  world.ground.recording.grants_left = 0;
  world.turn({"", "", add});
  REQUIRE(world.state(0) == State::queued);
  REQUIRE(world.state(1) == State::held);
  REQUIRE(world.state(2) == State::put_off);
  for (std::uint64_t id = 1; id <= 3; ++id) world.scheduler.kill(id);
  CHECK(world.gone == 3);
  world.ground.journal.durable = 100;
  world.ground.recording.grants_left = 100;
  ++world.progress;
  world.turn({"", "", "", ping});
  CHECK(world.received(3) == pong);
  CHECK_FALSE(world.scheduler.has_more());
  CHECK_FALSE(world.scheduler.awaits_journal());
}

TEST_CASE("a stop removes clients when the event that they wait for has come") {
  SchedulerWorld world(3);
  world.peer(0).room = 1;
  world.turn({ping});
  world.ground.recording.grants_left = 0;
  world.turn({"", add});
  world.peer(2).room = 1;
  world.turn({"", "", ping + request({"SAVE"})});
  world.scheduler.stop();
  world.scheduler.release_replies(world.progress);
  CHECK(world.state(0) == State::sending);
  CHECK(world.state(1) == State::put_off);
  world.peer(0).room = Peer::any_amount;
  world.happens(writable, 0);
  CHECK(world.received(0) == pong);
  CHECK(world.state(0) == State::lingering);
  world.ground.recording.grants_left = 100;
  ++world.progress;
  world.turn({});
  CHECK(world.received(1) == ":1\r\n");
  CHECK(world.state(1) == State::lingering);
  // The save may be waiting for the stop.
  world.peer(2).room = Peer::any_amount;
  world.happens(writable, 2);
  CHECK(world.received(2) == pong);
  CHECK(world.state(2) == State::lingering);
}

TEST_CASE("the memory of sent replies is used for the next kept replies") {
  SchedulerWorld world;
  const std::string echo = request({"ECHO", std::string(10'000, 'x')});
  world.turn({echo});
  world.turn({echo});
  CHECK(world.reply_buffer.capacity() > 10'000);
  CHECK(world.reply_buffer.capacity() < 50'000);
}

}  // namespace
}  // namespace sepal::session::scheduler_test
