#include <sepal/command/users/users.hpp>

#include "support/catch.hpp"
#include "unit/session/round_world.hpp"

namespace sepal::session::first_requests_test {
namespace {

using namespace test;
using Replies = std::vector<std::string>;
using Step = Session::Step;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string yes = ":1\r\n";
const std::string no = ":0\r\n";

std::string add(std::string_view key, std::string_view item) {
  return request({"BF.ADD", std::string(key), std::string(item)});
}
std::string exists(std::string_view key, std::string_view item) {
  return request({"BF.EXISTS", std::string(key), std::string(item)});
}

const command::CommandStats& stats_of(RoundWorld& world, std::string_view name) {
  return world.ground.workers[0].commands[command::command_row(*command::find_command(name))];
}

// A world with a filter "k" that has room.
struct FilterWorld : RoundWorld {
  explicit FilterWorld(std::size_t count) : RoundWorld(count) {
    services.logs = ground.recording.all_logs();
    ask(request({"BF.RESERVE", "k", "0.0001", "1000"}));
  }
  // The number of records since the last call.
  std::size_t records() {
    const std::size_t all = ground.recording.operations().size();
    return all - std::exchange(records_before, all);
  }
  std::size_t records_before = 1;
};

TEST_CASE("like requests of several clients run together, and each client gets its own answer") {
  FilterWorld world(4);
  CHECK(world.round({add("k", "a"), add("k", "b"), add("k", "a"), add("k", "c")}) ==
        Replies{yes, yes, no, yes});
  CHECK(world.records() == 1);
  CHECK(world.ground.recording.operations().back().fingerprints.size() == 3);
  CHECK(world.round({exists("k", "a"), exists("k", "x"), exists("k", "b"), exists("k", "c")}) ==
        Replies{yes, no, yes, yes});
  CHECK(world.records() == 0);
  CHECK_FALSE(world.ground.recording.misused);
}

TEST_CASE("requests that run together are counted like single requests") {
  FilterWorld world(3);
  const auto& stats = world.ground.workers[0];
  const std::uint64_t requests_before = stats.requests.get();
  const std::uint64_t batches_before = stats.batches.get();
  const std::uint64_t bytes_before = stats.bytes_in.get();
  const test::StandingClock::Slow slow(std::chrono::nanoseconds(3000));
  world.round({add("k", "a"), add("k", "b"), add("k", "b")});
  CHECK(stats.requests.get() == requests_before + 3);
  CHECK(stats.batches.get() == batches_before + 3);
  CHECK(stats.bytes_in.get() == bytes_before + 3 * add("k", "a").size());
  CHECK(stats.items_added.get() == 2);
  CHECK(stats_of(world, "bf.add").calls.get() == 3);
  CHECK(stats_of(world, "bf.add").nanoseconds.get() == 3000);
  for (const auto& session : world.sessions) {
    CHECK(session->client().request_count == 1);
    CHECK(session->client().last_command == command::find_command("bf.add"));
    CHECK(session->client().bytes_read == add("k", "a").size());
    CHECK(session->client().bytes_unparsed == 0);
    CHECK(session->last_run_at() == session->client().last_request_at + std::chrono::nanoseconds(3000));
  }
  world.round({exists("k", "a"), exists("k", "b"), exists("k", "x")});
  CHECK(stats.key_hits.get() == 3);
  world.round({exists("gone", "a"), exists("gone", "b"), exists("gone", "x")});
  CHECK(stats.key_misses.get() == 3);
}

TEST_CASE("each of several clients that ask a missing filter is told so, and counted once") {
  FilterWorld world(3);
  const auto& stats = world.ground.workers[0];
  const std::vector<std::string> requests{exists("gone", "a"), exists("gone", "b"), exists("gone", "a")};
  world.ground.options.missing_filter = bloom::MissingFilter::present;
  CHECK(world.round(requests) == Replies{yes, yes, yes});
  CHECK(stats.key_misses.get() == 3);
  CHECK(stats.items_asked.get() == 3);
  world.ground.options.missing_filter = bloom::MissingFilter::error;
  const std::string error = "-ERR not found\r\n";
  CHECK(world.round(requests) == Replies{error, error, error});
  CHECK(stats.key_misses.get() == 6);
  CHECK(stats.items_asked.get() == 3);
  CHECK(stats.error_replies.get() == 3);
  CHECK(stats_of(world, "bf.exists").failed.get() == 3);
  CHECK(stats_of(world, "bf.exists").calls.get() == 6);
}

TEST_CASE("requests that differ in more than the item are not run together") {
  FilterWorld world(4);
  world.ask(request({"BF.RESERVE", "other", "0.0001", "1000"}));
  world.records();
  CHECK(world.round({add("k", "a"), add("other", "a"), add("k", "b"), add("other", "b")}) ==
        Replies{yes, yes, yes, yes});
  CHECK(world.records() == 2);
  world.sessions[1]->client().database = 1;
  CHECK(world.round({add("k", "a"), exists("k", "a"), exists("k", "a"), exists("k", "b")}) ==
        Replies{no, no, yes, yes});
  world.sessions[1]->client().database = 0;
  CHECK(world.round(
            {request({"BF.ADD", "k", "c"}), request({"bf.add", "k", "c"}), ping, request({"BF.ADD", "k"})}) ==
        Replies{yes, no, pong, "-ERR wrong number of arguments for 'bf.add' command\r\n"});
}

TEST_CASE("only a request without another behind it is run before its session's turn") {
  FilterWorld world(3);
  const std::string first = add("k", "a");
  // The second client sends another request behind it, the third only a part of it.
  CHECK(world.round({first, first + ping, first.substr(0, first.size() - 1)}) == Replies{yes, no + pong, ""});
  CHECK(world.round({ping + first, first, first.substr(first.size() - 1)}) == Replies{pong + no, no, no});
  world.sessions[0]->input_ended();
  world.receive({add("k", "b"), add("k", "c"), add("k", "d")});
  world.look_ahead();
  CHECK(world.sessions[0]->run() == Step::close);
  CHECK(world.replies(0) == yes);
  CHECK(world.run(1) == yes);
  CHECK(world.run(2) == yes);
}

TEST_CASE("a long item is not run together with others") {
  FilterWorld world(2);
  const std::string long_item(1024, 'x');
  CHECK(world.round({add("k", long_item), add("k", long_item + "y")}) == Replies{yes, yes});
  CHECK(world.records() == 2);
}

TEST_CASE("an answer found ahead stays the same, whatever runs before it is sent") {
  FilterWorld world(3);
  world.receive({request({"DEL", "k"}), add("k", "a"), add("k", "b")});
  world.look_ahead();
  CHECK(world.run(0) == ":1\r\n");
  CHECK(world.run(1) == yes);
  CHECK(world.run(2) == yes);
  CHECK(world.round({ping, exists("k", "a"), exists("k", "b")}) == Replies{pong, no, no});
}

TEST_CASE("requests that need the gate closed are run one by one") {
  FilterWorld world(3);
  CHECK(world.round({add("new", "a"), add("new", "b"), add("new", "a")}) == Replies{yes, yes, no});
  world.ask(request({"BF.RESERVE", "full", "0.0001", "2", "NONSCALING"}));
  CHECK(world.round({add("full", "a"), add("full", "b"), add("full", "c")}) ==
        Replies{yes, yes, "-ERR non scaling filter is full\r\n"});
  world.ask(request({"BF.RESERVE", "tiny", "0.0001", "1"}));
  CHECK(world.round({add("tiny", "a"), add("tiny", "b"), add("tiny", "c")}) == Replies{yes, yes, yes});
  CHECK(stats_of(world, "bf.add").calls.get() == 9);
}

TEST_CASE("a refused client does not make the others fail") {
  FilterWorld world(3);
  world.services.users->set_default_password("secret");
  world.sessions[1]->client().authenticated = false;
  CHECK(world.round({add("k", "a"), add("k", "b"), add("k", "c")}) ==
        Replies{yes, "-NOAUTH Authentication required.\r\n", yes});
  CHECK(world.round({exists("k", "a"), exists("k", "b"), exists("k", "c")}) ==
        Replies{yes, "-NOAUTH Authentication required.\r\n", yes});
}

TEST_CASE("each client gets its answer in its own protocol version") {
  FilterWorld world(2);
  world.receive(1, request({"HELLO", "3"}));
  world.run(1);
  CHECK(world.round({add("k", "a"), add("k", "b")}) == Replies{yes, "#t\r\n"});
}

TEST_CASE("answers to adds that ran together wait for the journal, and answers to look-ups do not") {
  FilterWorld world(4);
  const int sealed_before = world.ground.recording.sealed;
  world.ground.recording.awaited = 100;
  world.ground.journal.durable = 99;
  world.receive({add("k", "a"), exists("k", "z"), add("k", "b"), exists("k", "y")});
  world.look_ahead();
  CHECK(world.ground.recording.sealed == sealed_before + 1);
  for (const std::size_t index : {0, 2}) {
    CHECK(world.sessions[index]->run() == Step::hold);
    CHECK(world.sessions[index]->held_until() == 100);
    CHECK_FALSE(world.sessions[index]->has_output());
    CHECK(world.sessions[index]->release() == Step::read);
    CHECK(world.replies(index) == yes);
  }
  CHECK(world.run(1) == no);
  CHECK(world.run(3) == no);

  // A client that is told "known" waits for workers that may be adding the item.
  world.round({add("k", "a"), add("k", "c"), ping, ping});
  CHECK(world.ground.recording.sealed_known == 1);
  // The next request does not wait.
  world.ground.recording.awaited = 0;
  CHECK(world.sessions[0]->release() == Step::read);
  CHECK(world.sessions[1]->release() == Step::read);
  CHECK(world.replies(0) + world.replies(1) == no + yes);
  CHECK(world.round({add("k", "d"), add("k", "e"), ping, ping}) == Replies{yes, yes, pong, pong});
}

TEST_CASE("held replies of a round keep no borrowed memory") {
  FilterWorld world(3);
  constexpr std::size_t lent_bytes = 100'000;
  world.reply_buffer.reserve(lent_bytes);
  world.ground.recording.awaited = 100;
  world.ground.journal.durable = 99;
  world.receive({add("k", "a"), add("k", "b"), ping});
  world.look_ahead();
  for (const std::size_t index : {0, 1}) {
    CHECK(world.sessions[index]->run() == Step::hold);
    CHECK(world.reply_buffer.capacity() >= lent_bytes);
  }
  CHECK(world.run(2) == pong);
}

TEST_CASE("a request that was run ahead is removed from the input") {
  FilterWorld world(3);
  const std::size_t free_bytes = world.input.free().size();
  for (int i = 0; i < 3; ++i) world.round({add("k", "a"), add("k", "b"), exists("k", "c")});
  CHECK(world.input.free().size() == free_bytes);
}

TEST_CASE("a request that came in two pieces is run with others, and leaves nothing in the input") {
  FilterWorld world(2);
  const std::string first = add("k", "a");
  CHECK(world.round({first.substr(0, 10), ping}) == Replies{"", pong});
  CHECK(world.sessions[0]->client().bytes_unparsed == 10);
  CHECK(world.round({first.substr(10), add("k", "b")}) == Replies{yes, yes});
  CHECK(world.records() == 1);
  CHECK(world.sessions[0]->client().bytes_unparsed == 0);
  CHECK(world.sessions[0]->input_bytes_held() == 0);
  CHECK(world.sessions[0]->last_run_until() == world.sessions[0]->last_run_at());
}

TEST_CASE("requests that run together do not find a key past its deadline") {
  FilterWorld world(2);
  world.ask(request({"BF.RESERVE", "due", "0.01", "10"}) + add("due", "a") +
            request({"PEXPIRE", "due", "1"}));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(world.round({exists("due", "a"), exists("due", "a")}) == Replies{no, no});
  CHECK(world.round({add("due", "a"), add("due", "a")}) == Replies{yes, no});
}

TEST_CASE("requests for which the journal has no room are put off one by one") {
  FilterWorld world(2);
  world.ground.recording.grants_left = 0;
  world.receive({add("k", "a"), add("k", "b")});
  world.look_ahead();
  CHECK(world.sessions[0]->run() == Step::later);
  CHECK(world.sessions[1]->run() == Step::later);
  world.ground.recording.grants_left = 2;
  CHECK(world.run(0) == yes);
  CHECK(world.run(1) == yes);
}

}  // namespace
}  // namespace sepal::session::first_requests_test
