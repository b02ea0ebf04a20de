// Long requests in a session: the batches that they take, and what runs and leaves meanwhile.
#include <sepal/command/run/partial_run.hpp>
#include <sepal/session/session.hpp>

#include "support/catch.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::session_parts_test {
namespace {

using namespace std::chrono_literals;
using namespace test;
using Step = Session::Step;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string yes = ":1\r\n";

// More than a batch takes.
constexpr std::size_t many = batch_requests_max + 2 * command::part_items_max + 1;

std::string long_request(std::vector<std::string> head, std::size_t count = many,
                         std::size_t item_bytes = 1) {
  for (std::size_t number = 0; number < count; ++number)
    head.push_back(std::to_string(number) + std::string(item_bytes, 'x'));
  return request(head);
}

std::string array_of(std::size_t count, std::string_view element) {
  return "*" + std::to_string(count) + "\r\n" + repeated(std::string(element), count);
}

// Not shown when they differ: they are long.
bool same(const std::string& one, const std::string& other) {
  return one == other;
}

// No item is mistaken for another.
struct PreciseWorld : SessionWorld {
  PreciseWorld() { ground.keyspace.set_defaults({.error_rate = 1e-12}); }
};

struct JournalWorld : PreciseWorld {
  JournalWorld() { services.logs = ground.recording.all_logs(); }
};

TEST_CASE("a long request ends its batch between two parts, and goes on in the next") {
  PreciseWorld world;
  // Short enough for the worker's shared memory, from where the rest has to move; or too long for it.
  const std::size_t item_bytes = GENERATE(std::size_t{1}, std::size_t{200});
  std::string_view bytes;
  const std::string sent = ping + long_request({"BF.MADD", "k"}, many, item_bytes) + ping;
  bytes = sent;
  std::vector<Step> steps;
  while (!bytes.empty()) {
    world.receive(bytes);
    steps.push_back(world.run());
  }
  CHECK(steps.back() == Step::run_again);
  CHECK(world.taken_output() == pong);
  CHECK(world.session.client().bytes_unparsed > 0);
  CHECK(world.run() == Step::run_again);  // the last item is one request more than a batch takes
  CHECK(world.run() == Step::read);
  CHECK(same(world.taken_output(), array_of(many, yes) + pong));
  CHECK(world.session.client().bytes_unparsed == 0);
  CHECK(world.ask(request({"BF.CARD", "k"})) == ":" + std::to_string(many) + "\r\n");
}

TEST_CASE("the words of a long inline request stay good, with quotes and without") {
  PreciseWorld world;
  world.ask(request({"BF.ADD", "k", "a b"}) + request({"BF.ADD", "k", "c"}));
  const std::string line = "BF.MEXISTS k" + repeated(" \"a b\" c", many / 2) + "\r\n";
  CHECK(same(world.ask(line), array_of(many / 2 * 2, yes)));
}

TEST_CASE("other sessions of the worker run between two batches of a long request") {
  PreciseWorld world;
  test::WorkerSession other(world.ground, world.services, 0);
  CHECK(world.give(long_request({"BF.MADD", "k"})) == Step::run_again);
  CHECK(other.ask(request({"BF.EXISTS", "k", "0x"}) + request({"DEL", "k"})) == yes + yes);
  CHECK(world.run() == Step::run_again);
  CHECK(world.run() == Step::read);
  CHECK(same(world.taken_output(), array_of(many, yes)));
  CHECK(other.ask(request({"BF.EXISTS", "k", "0x"})) == ":0\r\n");
}

TEST_CASE("a part that takes the time of a batch ends it") {
  PreciseWorld world;
  world.ask(request({"BF.RESERVE", "k", "1e-12", "100000"}));
  const std::string sent = long_request({"BF.MADD", "k"}, command::whole_items_max + command::part_items_max);
  std::size_t batches = 1;
  {
    const StandingClock::Slow slow(batch_time_max);
    world.give(sent);
    while (!world.session.has_output() && world.output.empty() && batches < 100) {
      world.run();
      ++batches;
    }
  }
  CHECK(batches == 5);
  CHECK(same(world.taken_output(), array_of(command::whole_items_max + command::part_items_max, yes)));
}

TEST_CASE("a request of few large items runs in parts too") {
  PreciseWorld world;
  constexpr std::size_t count = 40;
  const std::string sent = long_request({"BF.MADD", "k"}, count, command::part_bytes_max / 2);
  const StandingClock::Slow slow(batch_time_max);
  std::string_view bytes = sent;
  while (!bytes.empty()) {
    world.receive(bytes);
    world.run();
  }
  CHECK(world.output.empty());
  for (int batches = 0; batches < 100 && world.output.empty(); ++batches) world.run();
  CHECK(same(world.taken_output(), array_of(count, yes)));
}

TEST_CASE("a long request of keys runs once, whatever stands behind it") {
  PreciseWorld world;
  const std::string few = request({"EXISTS", "a", "b"});
  const std::string no = ":0\r\n";
  std::string sent;
  std::string expected;
  SECTION("many keys") {
    sent = long_request({"DEL"}) + ping;
    expected = no + pong;
  }
  SECTION("few long keys before short ones") {
    sent = long_request({"EXISTS"}, 2, command::whole_bytes_max) + few + few + ping;
    expected = repeated(no, 3) + pong;
  }
  SECTION("few long keys among short ones") {
    sent = few + long_request({"EXISTS"}, 2, command::whole_bytes_max) + request({"EXISTS", "c", "d"}) + ping;
    expected = repeated(no, 3) + pong;
  }
  const StandingClock::Slow slow(batch_time_max);
  std::string_view bytes = sent;
  while (!bytes.empty()) {
    world.receive(bytes);
    world.run();
  }
  for (int batches = 0; batches < 100; ++batches) world.run();
  CHECK(same(world.taken_output(), expected));
}

TEST_CASE("a long request is one call, with the time of all its parts") {
  PreciseWorld world;
  const auto& stats =
      world.ground.workers[0].commands[command::command_row(*command::find_command("bf.mexists"))];
  const StandingClock::Slow slow(1us);
  world.ask(long_request({"BF.MEXISTS", "k"}));
  CHECK(stats.calls.get() == 1);
  // The clock is read twice for each part.
  CHECK(stats.nanoseconds.get() >= 1000 * (many / command::part_items_max));
  CHECK(stats.nanoseconds.get() <= 3000 * (many / command::part_items_max + 2));
}

TEST_CASE("short calls before a long one keep their count and their time") {
  PreciseWorld world;
  const auto& stats =
      world.ground.workers[0].commands[command::command_row(*command::find_command("bf.mexists"))];
  world.give(repeated(request({"BF.MEXISTS", "k", "a"}), 10) + long_request({"BF.MEXISTS", "k"}));
  while (world.run() == Step::run_again) {
  }
  CHECK(stats.calls.get() == 11);
  const auto& scans = world.ground.workers[0].commands[command::command_row(*command::find_command("scan"))];
  std::string adds;
  for (int number = 0; number < 600; ++number) adds += request({"BF.ADD", std::to_string(number), "a"});
  world.ask(adds + repeated(request({"SCAN", "0"}), 10) + request({"SCAN", "0", "COUNT", "1000"}));
  CHECK(scans.calls.get() == 11);
}

TEST_CASE("a long request that is refused in the middle is a call that failed") {
  JournalWorld world;
  world.ask(request({"BF.RESERVE", "k", "1e-12", "100000"}));
  const auto& stats =
      world.ground.workers[0].commands[command::command_row(*command::find_command("bf.madd"))];
  const StandingClock::Slow slow(std::chrono::microseconds(1));
  CHECK(world.give(long_request({"BF.MADD", "k"})) == Step::run_again);
  world.ground.recording.admission = keyspace::Admission::refused;
  CHECK(world.run() == Step::run_again);
  CHECK(stats.calls.get() == 1);
  CHECK(stats.failed.get() == 1);
  CHECK(stats.rejected.get() == 0);
  CHECK(stats.nanoseconds.get() > 0);
}

TEST_CASE("CLIENT LIST counts the rest of a long reply") {
  PreciseWorld world;
  const std::string sent = request({"ECHO", std::string(4 * command::whole_bytes_max, 'x')});
  std::string_view rest = sent;
  while (!rest.empty()) {
    world.receive(rest);
    world.run();
  }
  for (int batches = 0; batches < 100 && world.output.empty(); ++batches) world.run();
  world.session.output_sent(1000, 500);
  CHECK(world.session.client().bytes_unsent ==
        sent.size() - std::string_view("*2\r\n$4\r\nECHO\r\n").size() - world.output.size() + 500);
}

TEST_CASE("keys are deleted in parts, and other workers run between them") {
  PreciseWorld world;
  std::string adds;
  for (std::size_t number = 0; number < many; ++number)
    adds += request({"BF.ADD", std::to_string(number) + "x", "a"});
  world.ask(adds);
  const StandingClock::Slow slow(batch_time_max);
  CHECK(world.give(long_request({"DEL"})) == Step::run_again);
  const std::uint64_t left = world.ground.keyspace.size(0);
  CHECK(left < many);
  CHECK(left > 0);
  while (world.run() == Step::run_again) {
  }
  CHECK(world.taken_output() == ":" + std::to_string(many) + "\r\n");
}

TEST_CASE("a long reply leaves piece by piece, and the requests behind it wait") {
  PreciseWorld world;
  constexpr std::size_t bytes = 10 * command::part_bytes_max;
  const std::string word(bytes, 'x');
  const std::string sent = ping + request({"ECHO", word}) + ping;
  std::string_view rest = sent;
  std::vector<Step> steps;
  std::size_t most_at_once = 0;
  const auto step = [&] {
    const std::size_t before = world.output.size();
    steps.push_back(world.run());
    most_at_once = std::max(most_at_once, world.output.size() - before);
  };
  while (!rest.empty()) {
    world.receive(rest);
    step();
  }
  for (int batches = 0; batches < 100 && steps.back() != Step::read; ++batches) step();
  CHECK(steps.back() == Step::read);
  CHECK(std::ranges::count(steps, Step::drain) >= 5);
  CHECK(most_at_once < 2 * command::part_bytes_max);
  CHECK(same(world.taken_output(), pong + "$" + std::to_string(bytes) + "\r\n" + word + "\r\n" + pong));
}

TEST_CASE("long strings leave piece by piece, and the gate stays open") {
  PreciseWorld world;
  constexpr std::size_t bytes = 10 * command::part_bytes_max;
  world.ask(request({"SETRANGE", "k", std::to_string(bytes - 1), "x"}));
  const std::string text = "$" + std::to_string(bytes) + "\r\n" + std::string(bytes - 1, '\0') + "x\r\n";
  const auto [asked, told] = GENERATE_COPY(std::pair(request({"GET", "k"}), text),
                                           std::pair(request({"MGET", "k", "k"}), "*2\r\n" + text + text));
  const std::uint64_t closings = world.ground.gate.closing_count();
  std::vector<Step> steps{world.give(asked + ping)};
  CHECK(steps.back() == Step::drain);
  CHECK(world.output.size() < 2 * command::part_bytes_max);
  for (int batches = 0; batches < 100 && steps.back() != Step::read; ++batches) {
    const std::size_t before = world.output.size();
    steps.push_back(world.run());
    CHECK(world.output.size() - before < 2 * command::part_bytes_max);
  }
  CHECK(world.ground.gate.closing_count() == closings);
  CHECK(world.ground.adoptions.waiting.empty());
  CHECK(same(world.taken_output(), told + pong));
}

TEST_CASE("a session without requests gives large memory back in several batches") {
  PreciseWorld world;
  const std::string sent = request({"PING", std::string(std::size_t{40} << 20, 'x')});
  std::string_view rest = sent;
  while (!rest.empty()) {
    world.receive(rest);
    world.run();
  }
  int batches = 0;
  while (world.run() != Step::read && batches < 1000) ++batches;
  CHECK(world.session.input_bytes_held() == 0);
  CHECK(world.taken_output().size() == sent.size() - std::string_view("*2\r\n$4\r\nPING\r\n").size());
}

TEST_CASE("a long request waits for room in the journal where it is") {
  JournalWorld world;
  world.ask(request({"BF.RESERVE", "k", "1e-12", "100000"}));
  world.ground.recording.grants_left = 3;
  const std::string sent = long_request({"BF.MADD", "k"});
  CHECK(world.give(sent) == Step::later);
  CHECK(world.run() == Step::later);
  CHECK(world.taken_output().empty());
}

TEST_CASE("the reply of a long request waits for the changes of all its parts") {
  JournalWorld world;
  world.ask(request({"BF.RESERVE", "k", "1e-12", "100000"}));
  world.ground.recording.awaited = 100;
  world.ground.journal.durable = 99;
  // A reply before it waits at once.
  CHECK(world.give(request({"BF.ADD", "k", "first"}) + long_request({"BF.MADD", "k"}) + ping) == Step::hold);
  CHECK(world.session.held_until() == 100);
  CHECK(world.session.release() == Step::run_again);
  world.collect();
  CHECK(world.taken_output() == yes);
  // The last batch changes nothing that would have to wait: what the parts before have changed does.
  world.ground.recording.awaited = 200;
  CHECK(world.run() == Step::hold);
  CHECK(world.session.held_until() == 200);
  CHECK(world.taken_output().empty());
  world.session.release();
  world.collect();
  CHECK(world.taken_output().starts_with("*" + std::to_string(many)));
}

}  // namespace
}  // namespace sepal::session::session_parts_test
