// CLIENT REPLY: which replies a session drops.

#include "support/catch.hpp"
#include "unit/session/round_world.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::no_replies_test {
namespace {

using namespace test;
using Step = Session::Step;

const std::string on = request({"CLIENT", "REPLY", "ON"});
const std::string off = request({"CLIENT", "REPLY", "OFF"});
const std::string skip = request({"CLIENT", "REPLY", "SKIP"});
const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

std::string add(const std::string& item) {
  return request({"BF.ADD", "k", item});
}

}  // namespace

TEST_CASE("CLIENT REPLY OFF drops all replies, also errors, up to CLIENT REPLY ON") {
  SessionWorld world;
  CHECK(world.ask(ping + off + ping + request({"NOSUCH"}) + request({"CLIENT", "REPLY", "x"}) + skip + off) ==
        pong);
  CHECK(world.ask(ping) == "");
  CHECK(world.ask(on + ping) == "+OK\r\n" + pong);
  CHECK(world.ask(request({"CLIENT", "REPLY", "x"})) == "-ERR syntax error\r\n");
}

TEST_CASE("CLIENT REPLY SKIP drops the reply of one request") {
  SessionWorld world;
  CHECK(world.ask(skip + ping + ping + ping) == pong + pong);
  CHECK(world.ask(skip) == "");
  CHECK(world.ask(request({"NOSUCH"})) == "");
  CHECK(world.ask(ping) == pong);
  CHECK(world.ask(skip + skip + ping + ping) == pong);
  CHECK(world.ask(skip + on + ping) == "+OK\r\n" + pong);
}

TEST_CASE("requests that run together are without replies as well") {
  SessionWorld world;
  CHECK(world.ask(off + add("a") + add("b") + add("c") + on + add("a") + add("d")) == "+OK\r\n:0\r\n:1\r\n");
  CHECK(world.ask(skip + add("a") + add("a") + add("e")) == ":0\r\n:1\r\n");
  CHECK(world.ask(skip + request({"BF.ADD", "x", "a"}) + request({"BF.ADD", "y", "a"}) + add("a")) ==
        ":1\r\n:0\r\n");
  CHECK(world.ask(off + request({"BF.EXISTS", "k", "a"}) + request({"BF.EXISTS", "x", "b"}) + on) ==
        "+OK\r\n");
}

TEST_CASE("like requests of several clients leave out the clients that want no reply") {
  RoundWorld world(3);
  world.ask(request({"BF.RESERVE", "k", "0.01", "100"}));
  world.sessions[1]->client().replies = command::Replies::none;
  world.sessions[2]->client().replies = command::Replies::all_but_one;
  CHECK(world.round({add("a"), add("b"), add("c")}) == std::vector<std::string>{":1\r\n", "", ""});
  CHECK(world.round({add("b"), add("b"), add("c")}) == std::vector<std::string>{":0\r\n", "", ":0\r\n"});
}

TEST_CASE("a long reply that leaves in parts is dropped as a whole") {
  SessionWorld world;
  const std::string bytes(command::whole_bytes_max + 1, 'z');
  CHECK(world.ask(skip + request({"ECHO", bytes}) + ping) == pong);
  CHECK(world.ask(off + request({"ECHO", bytes}) + ping + on) == "+OK\r\n");
}

TEST_CASE("the answer of a request that is answered later is dropped when it comes") {
  SessionWorld world;
  CHECK(world.give(skip + request({"SAVE"}) + ping) == Step::wait);
  CHECK(world.session.answer([](resp::Reply& reply) { reply.ok(); }));
  world.run();
  CHECK(world.taken_output() == pong);
  CHECK(world.ask(ping) == pong);
}

TEST_CASE("a transaction is one request for CLIENT REPLY SKIP, and has no CLIENT REPLY in it") {
  SessionWorld world;
  CHECK(world.ask(request({"MULTI"}) + on).ends_with("-ERR Command not allowed inside a transaction\r\n"));
  world.ask(request({"DISCARD"}));
  CHECK(world.ask(off + request({"MULTI"}) + ping + request({"EXEC"}) + on) == "+OK\r\n");
}

TEST_CASE("RESET brings the replies back") {
  SessionWorld world;
  CHECK(world.ask(off + ping + request({"RESET"}) + ping) == "+RESET\r\n" + pong);
}

TEST_CASE("without replies, bytes that are no request close the connection silently") {
  SessionWorld world;
  CHECK(world.give(off + "*x\r\n") == Step::close);
  CHECK(world.taken_output() == "");
}

TEST_CASE("under the policy always, CLIENT REPLY ON answers when the changes before it are durable") {
  SessionWorld world;
  world.services.logs = world.ground.recording.all_logs();
  world.ground.recording.awaited = 100;
  CHECK(world.give(off + add("a") + on + ping) == Step::hold);
  CHECK(world.taken_output() == "");
  world.ground.journal.durable = 100;
  world.session.release();
  world.collect();
  CHECK(world.taken_output() == "+OK\r\n" + pong);
}

}  // namespace sepal::session::no_replies_test
