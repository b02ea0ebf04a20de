#include <sepal/command/users/users.hpp>
#include <sepal/session/session.hpp>

#include "support/catch.hpp"
#include "support/eventually.hpp"
#include "support/request_stream.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::session_test {
namespace {

using namespace test;
using Step = Session::Step;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

const command::CommandStats& stats_of(SessionWorld& world, const command::CommandSpec& row) {
  return world.ground.workers[0].commands[command::command_row(row)];
}

std::uint64_t calls_of(SessionWorld& world, std::string_view name) {
  return stats_of(world, *command::find_command(name)).calls.get();
}

// INFO errorstats as a client sees it, without its first line.
std::string error_figures(SessionWorld& world) {
  world.taken_output();
  world.give(request({"INFO", "errorstats"}));
  const std::string reply = world.taken_output();
  return reply.substr(reply.find('\n', reply.find("# Errorstats")) + 1);
}

TEST_CASE("a batch answers all complete requests in order and keeps the beginning of the next") {
  SessionWorld world;
  CHECK(world.give(request({"ECHO", "a"}) + "PING\r\n" + request({"ECHO", "b"}) + "*2\r\n$4\r\nEC") ==
        Step::read);
  CHECK(world.taken_output() == "$1\r\na\r\n" + pong + "$1\r\nb\r\n");
  CHECK(world.session.client().bytes_unparsed == 10);
  CHECK(world.give("HO\r\n$1\r\nc\r\n") == Step::read);
  CHECK(world.taken_output() == "$1\r\nc\r\n");
  CHECK(world.session.client().bytes_unparsed == 0);
}

TEST_CASE("a batch runs as many requests as allowed; one more waits for the next batch") {
  SessionWorld world;
  CHECK(world.give(repeated(ping, batch_requests_max)) == Step::run_again);
  CHECK(world.taken_output() == repeated(pong, batch_requests_max));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output().empty());

  CHECK(world.give(repeated(ping, batch_requests_max + 1)) == Step::run_again);
  CHECK(world.taken_output() == repeated(pong, batch_requests_max));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == pong);
}

TEST_CASE("each command of a transaction that is refused in a pipeline gets its own reply") {
  SessionWorld world;
  world.services.logs = world.ground.recording.all_logs();
  const std::string add = request({"BF.ADD", "k", "a"});
  CHECK(world.ask(request({"MULTI"}) + repeated(add, 3)) == "+OK\r\n" + repeated("+QUEUED\r\n", 3));
  world.ground.recording.admission = keyspace::Admission::refused;
  const std::string replies = world.ask(repeated(add, 10) + ping);
  CHECK(std::ranges::count(replies, '\n') == 11);
  CHECK(replies.ends_with("+QUEUED\r\n"));
  CHECK(world.ask(request({"EXEC"})).starts_with("-EXECABORT"));
}

TEST_CASE("replies up to the limit do not stop a batch, one byte more does") {
  SessionWorld world;
  world.ground.options.output_bytes_max = 2 * pong.size();
  CHECK(world.give(repeated(ping, 2)) == Step::read);
  CHECK(world.taken_output() == repeated(pong, 2));

  CHECK(world.give(repeated(ping, 4)) == Step::run_again);
  CHECK(world.taken_output() == repeated(pong, 3));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == pong);
}

TEST_CASE("a client that never authenticated has the full limits once the password is gone") {
  const std::string large = request({"ECHO", std::string(resp::unauthenticated_bulk_bytes_max + 1, 'x')});
  SessionWorld guarded(false);
  guarded.services.users->set_default_password("sesame");
  CHECK(guarded.give(large) == Step::close);
  SessionWorld open(false);
  CHECK(open.give(large) == Step::read);
}

TEST_CASE("a request that is answered later makes the requests behind it wait") {
  SessionWorld world;
  CHECK(world.give(ping + request({"SAVE"}) + ping) == Step::wait);
  CHECK(world.taken_output() == pong);
  CHECK(world.ground.persistence.waiting_id == 1);
  CHECK(world.run() == Step::wait);
  CHECK(world.taken_output().empty());

  CHECK(world.session.answer([](resp::Reply& reply) { reply.ok(); }));
  world.collect();
  CHECK(world.taken_output() == "+OK\r\n");
  CHECK_FALSE(world.session.answer([](resp::Reply& reply) { reply.ok(); }));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == pong);
}

TEST_CASE("a protocol error ends the session after the replies before it") {
  SessionWorld world;
  CHECK(world.give(ping + "*1\r\n$x\r\n" + ping) == Step::close);
  CHECK(world.taken_output() == pong + "-ERR Protocol error: invalid bulk length\r\n");
  CHECK(world.run() == Step::close);
  CHECK(world.taken_output().empty());
  CHECK(world.session.input_bytes_held() == 0);
}

TEST_CASE("QUIT is answered, and no request after it is run") {
  SessionWorld world;
  CHECK(world.give(request({"QUIT"}) + ping) == Step::close);
  CHECK(world.taken_output() == "+OK\r\n");
  CHECK(world.run() == Step::close);
  CHECK(world.taken_output().empty());
}

TEST_CASE("requests of many items take a larger share of a batch") {
  SessionWorld world;
  std::vector<std::string> words{"BF.MADD", "key"};
  for (std::size_t i = 0; i < batch_requests_max / 2; ++i) words.push_back(std::to_string(i));
  const std::string many = request(words);
  CHECK(world.give(many + many + many) == Step::run_again);
  CHECK(calls_of(world, "bf.madd") == 2);
  CHECK(world.run() == Step::read);
  CHECK(calls_of(world, "bf.madd") == 3);
}

TEST_CASE("slow requests end their batch before it has used its share") {
  SessionWorld world;
  std::vector<std::string> words{"BF.MADD", "key"};
  for (std::size_t i = 0; i < batch_clock_period; ++i) words.push_back(std::to_string(i));
  const std::string many = request(words);
  {
    const test::StandingClock::Slow slow(batch_time_max);
    CHECK(world.give(many + many + many) == Step::run_again);
  }
  CHECK(calls_of(world, "bf.madd") == 1);
  CHECK(world.run() == Step::read);
  CHECK(calls_of(world, "bf.madd") == 3);
}

TEST_CASE("each call of a subcommand is counted before the next one is run") {
  SessionWorld world;
  const std::string text =
      world.ask(repeated(request({"CONFIG", "RESETSTAT"}), 3) + request({"INFO", "commandstats"}));
  CHECK(text.find("cmdstat_config|resetstat:calls=1,") != std::string::npos);
}

TEST_CASE("a peer that has ended its side gets all replies before the session closes") {
  SessionWorld world;
  std::string_view bytes;
  const std::string sent = repeated(ping, batch_requests_max + 1) + "*1\r\n$4\r\nPI";
  bytes = sent;
  world.receive(bytes);
  world.session.input_ended();
  CHECK(world.run() == Step::run_again);
  CHECK(world.run() == Step::close);
  CHECK(world.taken_output() == repeated(pong, batch_requests_max + 1));
}

TEST_CASE("requests that need the gate closed are answered in order, and the gate is open afterwards") {
  SessionWorld world;
  CHECK(world.give(ping + request({"FLUSHALL"}) + ping + request({"FLUSHALL"})) == Step::read);
  CHECK(world.taken_output() == pong + "+OK\r\n" + pong + "+OK\r\n");
  // This would wait for ever if the session still held its side or the gate.
  const GateClosed closed(world.ground.gate);
}

TEST_CASE("a pipeline of requests that need the gate closed goes on in a further batch") {
  SessionWorld world;
  const std::size_t count = 3 * alone_requests_max;
  CHECK(world.give(repeated(request({"FLUSHALL"}), count)) == Step::read);
  CHECK(world.taken_output() == repeated("+OK\r\n", count));
  CHECK(calls_of(world, "flushall") == count);
}

// Calls the test when it is asked for the number of clients, in the middle of a batch of side 0.
class AskedInside final : public command::ClientDirectory {
 public:
  explicit AskedInside(std::function<void()> asked) : asked_(std::move(asked)) {}

  [[nodiscard]] std::uint64_t count() const override {
    asked_();
    return 0;
  }

 private:
  std::function<void()> asked_;
};

const std::string ask_inside = request({"INFO", "clients"});

// Another worker, which enters its own side of the gate.
class OtherWorker {
 public:
  explicit OtherWorker(Gate& gate) : gate_(gate) {}
  ~OtherWorker() {
    if (thread_.joinable()) thread_.join();
  }
  OtherWorker(const OtherWorker&) = delete;
  OtherWorker& operator=(const OtherWorker&) = delete;

  // Whether it gets in while the caller is in a batch. Otherwise it goes on waiting, and gets in later.
  bool enters() {
    thread_ = std::thread([this] {
      gate_.enter(1);
      gate_.leave(1);
      inside_ = true;
    });
    return sepal::test::eventually([this] { return inside_.load(); });
  }

 private:
  Gate& gate_;
  std::atomic<bool> inside_{false};
  std::thread thread_;
};

TEST_CASE("the gate opens for others after the allowed number of requests of a pipeline") {
  test::Ground ground(2);
  OtherWorker other(ground.gate);
  bool entered = false;
  AskedInside clients([&] { entered = other.enters(); });
  command::Services services = ground.services(clients);
  test::WorkerSession worker(ground, services, 0);
  CHECK(worker.give(request({"FLUSHALL"}) + repeated(ping, alone_requests_max) + ask_inside) == Step::read);
  CHECK(entered);
}

TEST_CASE("the gate opens for others after the allowed time") {
  test::Ground ground(2);
  OtherWorker other(ground.gate);
  bool waited = false;
  bool entered = false;
  AskedInside clients([&] {
    if (waited) {
      entered = other.enters();
    } else {
      test::StandingClock::nanoseconds += std::chrono::nanoseconds(alone_time_max).count();
      waited = true;
    }
  });
  command::Services services = ground.services(clients);
  test::WorkerSession worker(ground, services, 0);
  CHECK(worker.give(request({"FLUSHALL"}) + ask_inside + repeated(ping, alone_clock_period - 2) +
                    ask_inside) == Step::read);
  CHECK(entered);
}

TEST_CASE("a batch of requests that may be slow ends after its time") {
  SessionWorld world;
  const test::StandingClock::Slow slow(batch_time_max / 4);
  CHECK(world.give(repeated(request({"INFO"}), batch_clock_period / 2)) == Step::run_again);
  CHECK(calls_of(world, "info") <= 4);
}

TEST_CASE("a slow request that is the last one ends its batch") {
  SessionWorld world;
  const test::StandingClock::Slow slow(batch_time_max);
  CHECK(world.give(request({"INFO"})) == Step::read);
  CHECK(world.give(request({"INFO"}) + ping) == Step::run_again);
}

// Adds one item each to `count` new filters. Each request needs the gate closed, and the parser takes most of
// them ahead.
std::string creations(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += request({"BF.ADD", "key:" + std::to_string(i), "item"});
  return bytes;
}

TEST_CASE("requests that a batch parsed ahead are run before it ends") {
  SessionWorld world;
  const std::size_t count = batch_requests_max + 7 * similar_max;
  std::string_view bytes;
  const std::string sent = creations(count);
  bytes = sent;
  world.receive(bytes);
  REQUIRE(bytes.empty());
  CHECK(world.run() == Step::run_again);
  const std::size_t first_batch = calls_of(world, "bf.add");
  CHECK(first_batch >= batch_requests_max);
  CHECK(first_batch <= batch_requests_max + similar_max);
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == repeated(":1\r\n", count));

  world.ground.options.output_bytes_max = 1;
  CHECK(world.give(creations(count)) == Step::run_again);
  while (world.run() == Step::run_again) {
  }
  CHECK(world.taken_output() == repeated(":0\r\n", count));
  CHECK(calls_of(world, "bf.add") == 2 * count);
}

TEST_CASE("bits in a pipeline are answered in order, together or one by one") {
  SessionWorld world;
  const auto set = [](std::string_view position, std::string_view value = "1") {
    return sepal::test::encode_request(std::vector<std::string_view>{"SETBIT", "k", position, value});
  };
  const auto get = [](std::string_view position) {
    return sepal::test::encode_request(std::vector<std::string_view>{"GETBIT", "k", position});
  };
  // The first ones find no string, and one in the middle lies behind its end.
  std::string sent =
      set("7") + set("6") + set("7") + set("900") + set("6") + set("5") + set("5", "0") + set("5");
  std::string expected = ":0\r\n:0\r\n:1\r\n:0\r\n:1\r\n:0\r\n:1\r\n:0\r\n";
  sent += set("1") + set("x") + set("2") + get("1") + get("2") + get("-1") + get("900") + get("3");
  const std::string wrong = "-ERR bit offset is not an integer or out of range\r\n";
  expected += ":0\r\n" + wrong + ":0\r\n:1\r\n:1\r\n" + wrong + ":1\r\n:0\r\n";
  sent += set("10") + set("11") + set("10");
  expected += ":0\r\n:0\r\n:1\r\n";
  Step step = world.give(sent);
  while (step == Step::run_again) step = world.run();
  CHECK(world.taken_output() == expected);
  CHECK(calls_of(world, "setbit") + calls_of(world, "getbit") == 19);
  // Each bit that was set is a change, however its request ran: a stop saves only if something has changed.
  const std::uint64_t before = world.ground.workers[0].other_changes.get();
  std::string more;
  for (int i = 100; i < 140; ++i) more += set(std::to_string(i));
  step = world.give(more + more);
  while (step == Step::run_again) step = world.run();
  CHECK(world.taken_output() == repeated(":0\r\n", 40) + repeated(":1\r\n", 40));
  CHECK(world.ground.workers[0].other_changes.get() == before + 40);
}

TEST_CASE("requests that were parsed ahead are dropped when their client must be closed") {
  SessionWorld world;
  world.session.client().close_after_reply = true;
  CHECK(world.give(creations(similar_max)) == Step::close);
  CHECK(world.taken_output() == ":1\r\n");
  CHECK(world.ground.keyspace.total_size() == 1);
}

TEST_CASE("requests that run together are counted as calls of their own command") {
  SessionWorld world;
  CHECK(world.give(repeated(ping, 3) + repeated(request({"ECHO", "x"}), 2) + ping + request({"NOSUCH"}) +
                   ping) == Step::read);
  CHECK(calls_of(world, "ping") == 5);
  CHECK(calls_of(world, "echo") == 2);
  CHECK(world.ground.workers[0].batches.get() == 1);
}

TEST_CASE("a refused request does not change the number of calls of the same command before or after it") {
  SessionWorld world;
  const std::string echo = request({"ECHO", "x"});
  const std::string refused = request({"ECHO"});
  CHECK(world.give(repeated(echo, 3) + refused + repeated(echo, 2)) == Step::read);
  CHECK(calls_of(world, "echo") == 5);
  CHECK(world.give(repeated(refused, 2) + echo) == Step::read);
  CHECK(calls_of(world, "echo") == 6);
  CHECK(stats_of(world, *command::find_command("echo")).rejected.get() == 3);
}

TEST_CASE("a request without a name does not change the calls of the subcommand before it") {
  SessionWorld world;
  CHECK(world.give(request({"CLIENT", "ID"}) + request({""})) == Step::read);
  const auto subcommands = command::find_command("client")->subcommands;
  const auto row = std::ranges::find(subcommands, "client|id", &command::CommandSpec::name);
  REQUIRE(row != subcommands.end());
  CHECK(stats_of(world, *row).calls.get() == 1);
}

TEST_CASE("a command that administers and is answered later is logged if its answer is no error") {
  SessionWorld world;
  const std::string load = request({"ACL", "LOAD"});
  const std::vector<std::string>& logged = world.ground.control.administration;
  REQUIRE(world.give(load) == Step::wait);
  REQUIRE(world.session.answer([](resp::Reply& reply) { reply.error("ERR users.acl:4: no such command"); }));
  REQUIRE(world.run() == Step::read);
  CHECK(logged.empty());
  REQUIRE(world.give(load) == Step::wait);
  CHECK(logged.empty());
  REQUIRE(world.session.answer([](resp::Reply& reply) { reply.ok(); }));
  CHECK(logged == std::vector<std::string>{"default: ACL LOAD"});
  REQUIRE(world.run() == Step::read);
  world.session.leaves();
  CHECK(logged.size() == 1);
}

TEST_CASE("a command that administers is logged if its client goes before the answer") {
  SessionWorld world;
  REQUIRE(world.give(request({"ACL", "LOAD"})) == Step::wait);
  world.session.leaves();
  CHECK(world.ground.control.administration == std::vector<std::string>{"default: ACL LOAD"});
}

TEST_CASE("errors that come from no handler are in the statistics, too") {
  SessionWorld world;
  REQUIRE(world.give(request({"SAVE"})) == Step::wait);
  REQUIRE(world.session.answer([](resp::Reply& reply) { reply.error("ERR the disk is full"); }));
  REQUIRE(world.run() == Step::read);
  CHECK(error_figures(world) == "errorstat_ERR:count=1\r\n\r\n");
  CHECK(stats_of(world, *command::find_command("save")).failed.get() == 1);
  CHECK(world.give(request({"INFO", "errorstats"}) + "*1\r\n$x\r\n") == Step::close);
  CHECK(world.ground.workers[0].error_replies.get() == 2);

  SessionWorld fresh;
  REQUIRE(fresh.give("*1\r\n$x\r\n") == Step::close);
  Session other(fresh.environment, SessionWorld::client(fresh.services, true));
  const std::string asked = request({"INFO", "errorstats"});
  std::ranges::copy(asked, other.input_space().begin());
  other.input_arrived(asked.size());
  REQUIRE(other.run() == Step::read);
  std::string reply;
  other.take_output(reply);
  CHECK(reply.find("errorstat_ERR:count=1\r\n") != std::string::npos);
}

TEST_CASE("the figures of a client follow its bytes") {
  SessionWorld world;
  CHECK(world.give(ping) == Step::read);
  CHECK(world.session.client().request_count == 1);
  CHECK(world.session.client().bytes_read == ping.size());
  world.session.output_sent(3, 4);
  CHECK(world.session.client().bytes_unsent == 4);
  world.session.output_sent(4, 0);
  CHECK(world.session.client().bytes_unsent == 0);
  CHECK(world.give(ping) == Step::read);
  CHECK(world.session.client().bytes_written == 7);
  CHECK(world.ground.workers[0].bytes_in.get() == 2 * ping.size());
  CHECK(world.ground.workers[0].bytes_out.get() == 7);
}

TEST_CASE("an idle session holds no input, and one with a rest little more than the rest") {
  SessionWorld world;
  CHECK(world.give(repeated(ping, 1000)) == Step::read);
  CHECK(world.session.input_bytes_held() == 0);
  CHECK(world.give(ping + "*2\r\n$4\r\nECHO\r\n$3\r\nab") == Step::read);
  CHECK(world.session.input_bytes_held() <= 64);
  CHECK(world.give("c\r\n") == Step::read);
  CHECK(world.session.input_bytes_held() == 0);
  CHECK(world.taken_output() == repeated(pong, 1001) + "$3\r\nabc\r\n");
}

TEST_CASE("a session without replies keeps none of the worker's memory for replies") {
  SessionWorld world;
  world.give(request({"ECHO", std::string(10'000, 'x')}));
  const std::size_t reply_bytes = world.reply_buffer.capacity();
  REQUIRE(reply_bytes > 10'000);
  std::string_view bytes = "*1\r\n$4\r\nPI";
  world.receive(bytes);
  CHECK(world.session.run() == Step::read);
  CHECK(world.reply_buffer.capacity() == reply_bytes);
}

TEST_CASE("memory for a large argument grows with the bytes that arrived, not with the announced length") {
  SessionWorld world;
  const std::size_t announced = 100'000'000;
  CHECK(world.give("*2\r\n$4\r\nECHO\r\n$" + std::to_string(announced) + "\r\n") == Step::read);
  std::size_t arrived = 0;
  while (arrived < 3'000'000) {
    const std::string piece(arrived < 20'000 ? 999 : 40'000, 'x');
    std::string_view bytes = piece;
    while (!bytes.empty()) {
      world.receive(bytes);
      REQUIRE(world.run() == Step::read);
    }
    arrived += piece.size();
    REQUIRE(world.session.input_bytes_held() <= 2 * arrived + 64 * 1024);
  }
}

TEST_CASE("a large argument that arrives in pieces is answered whole, and its memory given back") {
  SessionWorld world;
  const std::string item = repeated("0123456789", 100'000);
  const std::string sent = request({"ECHO", item}) + ping;
  for (std::string_view bytes = sent; !bytes.empty();) {
    world.receive(bytes);
    REQUIRE(world.run() != Step::close);
  }
  CHECK(world.taken_output() == "$1000000\r\n" + item + "\r\n" + pong);
  CHECK(world.session.input_bytes_held() == 0);
}

TEST_CASE("changed limits apply from the next batch on") {
  SessionWorld world;
  CHECK(world.give(request({"ECHO", "12345"})) == Step::read);
  world.ground.options.parser.bulk_bytes_max = 5;
  CHECK(world.give(request({"ECHO", "12345"})) == Step::read);
  CHECK(world.taken_output() == repeated("$5\r\n12345\r\n", 2));
  CHECK(world.give(request({"ECHO", "123456"})) == Step::close);
  CHECK(world.taken_output() == "-ERR Protocol error: invalid bulk length\r\n");
}

TEST_CASE("a client without authentication may send only a few arguments") {
  const auto too_many =
      request(std::vector<std::string>(resp::unauthenticated_argument_count_max + 1, "PING"));
  SessionWorld stranger(false);
  stranger.services.users->set_default_password("secret");
  CHECK(stranger.give(too_many) == Step::close);
  CHECK(stranger.taken_output() == "-ERR Protocol error: unauthenticated multibulk length\r\n");
  SessionWorld known(true);
  CHECK(known.give(too_many) == Step::read);
}

TEST_CASE("a request that was looked ahead at is run once, after the requests that ran meanwhile") {
  SessionWorld world;
  Session other(world.environment, SessionWorld::client(world.services, true));
  const auto run_other = [&](const std::string& bytes) {
    std::ranges::copy(bytes, other.input_space().begin());
    other.input_arrived(bytes.size());
    REQUIRE(other.run() == Step::read);
    std::string reply;
    other.take_output(reply);
    return reply;
  };
  const std::string add = request({"BF.ADD", "k", "a"});
  CHECK(world.give(add) == Step::read);
  const std::string two = add + request({"BF.EXISTS", "k", "a"});
  std::string_view bytes = two;
  world.receive(bytes);
  world.look_ahead();
  CHECK(run_other(request({"DEL", "k"})) == ":1\r\n");
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == ":1\r\n:1\r\n:1\r\n");
  CHECK(calls_of(world, "bf.add") == 2);

  bytes = add;
  world.receive(bytes);
  world.look_ahead();
  world.services.users->set_default_password("secret");
  world.session.client().authenticated = false;
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == "-NOAUTH Authentication required.\r\n");
}

TEST_CASE("a look ahead at any bytes does not change the answers") {
  const std::string quoted = "ECHO \"a b\"\r\n";
  const std::string broken = ping + "*1\r\n$x\r\n";
  for (const std::string& bytes :
       {std::string(), ping, quoted + quoted, broken, broken.substr(ping.size()), "*0\r\n\r\n" + ping,
        request({"NOSUCH"}), request({"BF.ADD", "k"}), request({"ECHO", std::string(10'000, 'x')}) + ping}) {
    for (std::size_t cut = 0; cut <= bytes.size(); cut += 1 + cut / 50) {
      SessionWorld plain;
      SessionWorld ahead;
      for (std::string_view piece :
           {std::string_view(bytes).substr(0, cut), std::string_view(bytes).substr(cut)}) {
        const Step expected = plain.give(piece);
        ahead.receive(piece);
        ahead.look_ahead();
        CHECK(ahead.run() == expected);
        if (expected == Step::close) break;
      }
      CHECK(ahead.output == plain.output);
    }
  }
}

TEST_CASE("a look ahead finds the block of one item in a large filter") {
  SessionWorld world;
  CHECK(world.give(request({"BF.RESERVE", "large", "0.01", "100000"})) == Step::read);
  CHECK(world.give(request({"BF.RESERVE", "small", "0.01", "100"})) == Step::read);
  const auto lines_of = [&](const std::string& bytes) {
    std::string_view rest = bytes;
    world.receive(rest);
    const std::size_t count = world.look_ahead().addresses().size();
    CHECK(world.run() == Step::read);
    return count;
  };
  CHECK(lines_of(request({"BF.ADD", "large", "item"}) + ping) == 1);
  CHECK(lines_of(request({"bf.exists", "large", "item"})) == 1);
  CHECK(lines_of(request({"BF.ADD", "small", "item"})) == 0);
  CHECK(lines_of(request({"BF.EXISTS", "nothing", "item"})) == 0);
  CHECK(lines_of(request({"BF.EXISTS", "large"})) == 0);
  CHECK(lines_of(request({"BF.MADD", "large", "item"})) == 0);
  CHECK(lines_of(ping + request({"BF.ADD", "large", "item"})) == 0);
  CHECK(lines_of(request({"BF.ADD", "large", std::string(1024 - 5, 'x')})) == 1);
  CHECK(lines_of(request({"BF.ADD", "large", std::string(1024 - 4, 'x')})) == 0);
}

TEST_CASE("changed limits apply to a look ahead") {
  SessionWorld world;
  CHECK(world.give(request({"ECHO", "123456"})) == Step::read);
  world.taken_output();
  world.ground.options.parser.bulk_bytes_max = 5;
  const std::string too_long = request({"ECHO", "123456"});
  std::string_view bytes = too_long;
  world.receive(bytes);
  world.look_ahead();
  CHECK(world.run() == Step::close);
  CHECK(world.taken_output() == "-ERR Protocol error: invalid bulk length\r\n");
}

}  // namespace
}  // namespace sepal::session::session_test
