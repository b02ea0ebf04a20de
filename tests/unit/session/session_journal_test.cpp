// Sessions and the journal, byte by byte.
#include <sepal/session/session.hpp>

#include "support/catch.hpp"
#include "unit/session/session_world.hpp"

namespace sepal::session::session_journal_test {
namespace {

using keyspace::Admission;
using namespace test;
using Step = Session::Step;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string add_a = request({"BF.ADD", "k", "a"});
const std::string yes = ":1\r\n";
const std::string no = ":0\r\n";

struct JournalWorld : test::SessionWorld {
  JournalWorld() { services.logs = ground.recording.all_logs(); }

  sepal::test::RecordingJournal& recording() { return ground.recording; }
  std::atomic<std::uint64_t>& durable() { return ground.journal.durable; }
};

TEST_CASE("a batch that may have added seals its record once, a batch that only reads does not") {
  JournalWorld world;
  CHECK(world.give(ping + request({"BF.EXISTS", "k", "a"})) == Step::read);
  CHECK(world.recording().sealed + world.recording().sealed_known == 0);
  CHECK(world.give(add_a + request({"BF.ADD", "k", "b"}) + ping) == Step::read);
  CHECK(world.recording().sealed == 1);
  CHECK(world.recording().sealed_known == 0);
  CHECK(world.give(add_a + request({"BF.ADD", "k", "c"})) == Step::read);
  CHECK(world.recording().sealed_known == 1);
  CHECK(world.taken_output() == pong + no + yes + yes + pong + no + yes);
  CHECK(world.recording().operations().size() == 4);
}

TEST_CASE("changes with the gate closed are in the journal before the gate opens") {
  JournalWorld world;
  CHECK(world.give(request({"BF.RESERVE", "k", "0.01", "100"}) + request({"FLUSHALL"})) == Step::read);
  CHECK(world.recording().commits == 1);
  CHECK(world.recording().operations().size() == 2);
  CHECK(world.give(ping) == Step::read);
  CHECK(world.recording().commits == 1);
}

TEST_CASE("replies are held until the journal is durable up to the batch's position") {
  JournalWorld world;
  world.recording().awaited = 100;
  world.durable() = 99;
  CHECK(world.give(ping + add_a + ping) == Step::hold);
  CHECK(world.session.held_until() == 100);
  CHECK_FALSE(world.session.has_output());
  CHECK(world.taken_output().empty());
  CHECK(world.session.release() == Step::read);
  world.collect();
  CHECK(world.taken_output() == pong + yes + pong);

  world.durable() = 100;
  CHECK(world.give(add_a) == Step::read);
  CHECK(world.taken_output() == no);
  // A look-up waits for nothing.
  world.durable() = 0;
  CHECK(world.give(request({"BF.EXISTS", "k", "a"})) == Step::read);
  CHECK(world.taken_output() == yes);
}

TEST_CASE("held replies keep no borrowed memory") {
  JournalWorld world;
  world.recording().awaited = 1;
  world.give(repeated(ping, 1000));
  world.taken_output();
  const std::size_t lent_bytes = world.reply_buffer.capacity();
  std::string_view bytes = add_a;
  world.receive(bytes);
  CHECK(world.session.run() == Step::hold);
  CHECK(world.reply_buffer.capacity() == lent_bytes);
  CHECK(world.session.release() == Step::read);
  world.collect();
  CHECK(world.taken_output() == yes);
}

TEST_CASE("a session's next step follows when its held replies are released") {
  JournalWorld world;
  world.recording().awaited = 1;
  CHECK(world.give(add_a + request({"QUIT"}) + ping) == Step::hold);
  CHECK(world.session.release() == Step::close);
  world.collect();
  CHECK(world.taken_output() == yes + "+OK\r\n");

  JournalWorld many;
  many.recording().awaited = 1;
  CHECK(many.give(repeated(add_a, batch_requests_max + 1)) == Step::hold);
  CHECK(many.session.release() == Step::run_again);
  many.collect();
  CHECK(many.run() == Step::hold);
  CHECK(many.session.release() == Step::read);
  many.collect();
  CHECK(many.taken_output() == yes + repeated(no, batch_requests_max));
}

TEST_CASE("an answer that comes while replies are held follows them") {
  JournalWorld world;
  world.recording().awaited = 1;
  CHECK(world.give(add_a + request({"SAVE"}) + ping) == Step::hold);
  CHECK(world.session.answer([](resp::Reply& reply) { reply.ok(); }));
  CHECK_FALSE(world.session.has_output());
  CHECK(world.session.release() == Step::run_again);
  world.collect();
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == yes + "+OK\r\n" + pong);

  CHECK(world.give(add_a + request({"SAVE"}) + ping) == Step::hold);
  CHECK(world.session.release() == Step::wait);
  CHECK(world.session.answer([](resp::Reply& reply) { reply.ok(); }));
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == no + "+OK\r\n" + pong);
}

// A pipeline with requests of every kind: neighbours on one key and on many keys, inline requests, other
// commands between them, empty last words, and creations.
std::string pipeline() {
  std::string bytes = request({"BF.RESERVE", "k", "0.01", "1000"});
  for (int i = 0; i < 70; ++i) bytes += request({"BF.ADD", "k", std::to_string(i)});
  bytes += ping + "BF.ADD k inline\r\n\r\n*0\r\n";
  for (int i = 0; i < 40; ++i) bytes += request({"BF.ADD", "key " + std::to_string(i % 20), ""});
  bytes += request({"BF.MADD", "k", "1", "2", "new"}) + request({"BF.ADD", "k", ""}) +
           request({"BF.ADD", "k", ""}) + request({"FLUSHALL"}) + request({"BF.ADD", "k", "last"}) + ping;
  return bytes;
}

std::string replies_of(JournalWorld& world, std::string_view bytes, std::int64_t grants) {
  world.recording().grants_left = grants;
  world.receive(bytes);
  REQUIRE(bytes.empty());
  for (Step step = world.run(); step != Step::read; step = world.run()) {
    REQUIRE((step == Step::later || step == Step::run_again));
    // At least as many grants as one request needs, under the shared gate and with the gate closed.
    world.recording().grants_left = 2;
  }
  return world.taken_output();
}

TEST_CASE("requests that the journal puts off at any place are run once and in order") {
  const std::string bytes = pipeline();
  JournalWorld world;
  const std::string expected = replies_of(world, bytes, 1'000'000);
  const auto operations = world.recording().operations();
  REQUIRE(expected.ends_with(yes + pong));
  for (std::int64_t grants = 0; grants < 130; ++grants) {
    CAPTURE(grants);
    JournalWorld interrupted;
    REQUIRE(replies_of(interrupted, bytes, grants) == expected);
    std::uint64_t fingerprints = 0;
    for (const auto& each : operations) fingerprints += each.fingerprints.size();
    for (const auto& each : interrupted.recording().operations()) fingerprints -= each.fingerprints.size();
    REQUIRE(fingerprints == 0);
    REQUIRE(interrupted.session.client().request_count == world.session.client().request_count);
    REQUIRE(interrupted.session.input_bytes_held() == 0);
  }
}

TEST_CASE("requests that are put off leave with their bytes, and the replies before them are sent") {
  JournalWorld world;
  world.recording().grants_left = 0;
  const std::string put_off = ping + add_a + ping;
  std::string_view bytes = put_off;
  world.receive(bytes);
  const bool looks_ahead = GENERATE(false, true);
  if (looks_ahead) world.look_ahead();
  CHECK(world.run() == Step::later);
  CHECK(world.taken_output() == pong);
  CHECK(world.session.client().bytes_unparsed == add_a.size() + ping.size());
  CHECK(world.run() == Step::later);
  CHECK(world.taken_output().empty());
  world.recording().admission = Admission::refused;
  world.ground.journal.state.refusal = "full";
  CHECK(world.run() == Step::read);
  CHECK(world.taken_output() == "-MISCONF Errors writing to the journal: full\r\n" + pong);
}

}  // namespace
}  // namespace sepal::session::session_journal_test
