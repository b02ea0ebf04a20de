// Progress of the journal, and clients that wait for it, over sockets.
#include <sepal/server/server.hpp>

#include "support/catch.hpp"
#include "unit/server/server_world.hpp"

namespace sepal::server::server_journal_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
constexpr std::chrono::milliseconds a_while{50};

std::string add(int item) {
  return request({"BF.ADD", "k", std::to_string(item)});
}

struct JournalWorld : ServerWorld {
  explicit JournalWorld(std::uint32_t worker_count = 1) : ServerWorld(any_port(worker_count)) {
    services.logs = ground.recording.all_logs();
    start();
  }

  // Waits until so many batches have ended, and the workers serve another client.
  void await_batches(int count) {
    REQUIRE(eventually([&] { return ground.recording.sealed + ground.recording.sealed_known == count; }));
    REQUIRE(connect()->ask(ping, pong.size()) == pong);
  }
  void make_durable(std::uint64_t position) {
    ground.journal.durable = position;
    server.journal_progressed();
  }
};

TEST_CASE("replies leave as soon as the journal is durable, and other clients go on") {
  JournalWorld world(2);
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < 8; ++i) {
    world.ground.recording.awaited = static_cast<std::uint64_t>(i + 1);
    clients.push_back(world.connect());
    REQUIRE(clients.back()->send(add(i)));
    world.await_batches(i + 1);
  }
  for (int i = 0; i < 8; ++i) {
    auto& client = *clients[static_cast<std::size_t>(i)];
    CHECK_FALSE(client.readable(a_while));
    world.make_durable(static_cast<std::uint64_t>(i + 1));
    CHECK(client.receive(4) == ":1\r\n");
  }
  world.ground.recording.awaited = 0;
  for (auto& client : clients) CHECK(client->ask(ping, pong.size()) == pong);
}

TEST_CASE("progress of the journal before a client waits is not missed") {
  JournalWorld world(2);
  world.ground.recording.awaited = 1;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> position{1};
  // Each batch waits for a position that is durable a moment later.
  std::thread journal([&] {
    while (!done) {
      world.make_durable(position);
      world.ground.recording.awaited = ++position;
    }
  });
  std::vector<std::thread> clients;
  std::atomic<int> answered{0};
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      SocketClient client(world.server.port());
      for (int i = 0; i < 500; ++i)
        if (client.ask(add(c * 1000 + i), 4) == ":1\r\n") ++answered;
    });
  }
  for (auto& client : clients) client.join();
  done = true;
  journal.join();
  // A few items are false positives.
  CHECK(answered > 1900);
}

TEST_CASE("clients that leave or are killed while their replies wait are removed") {
  JournalWorld world;
  world.ground.recording.awaited = 1;
  auto leaving = world.connect();
  auto killed = world.connect();
  const auto staying = world.connect();
  REQUIRE(leaving->send(add(1)));
  world.await_batches(1);
  REQUIRE(killed->send(add(2)));
  world.await_batches(2);
  REQUIRE(staying->send(add(3)));
  world.await_batches(3);
  REQUIRE(eventually([&] { return world.server.count() == 3; }));
  leaving.reset();
  world.server.kill(2);
  CHECK(killed->receive_until_closed().empty());
  world.make_durable(1);
  CHECK(staying->receive(4) == ":1\r\n");
  CHECK(eventually([&] { return world.server.count() == 1; }));
}

TEST_CASE("requests that wait for room in the journal run when it has made progress") {
  JournalWorld world;
  world.ground.recording.admission = keyspace::Admission::later;
  const auto client = world.connect();
  REQUIRE(client->send(ping + add(1) + ping));
  CHECK(client->receive(pong.size()) == pong);
  CHECK_FALSE(client->readable(a_while));
  world.server.journal_progressed();
  CHECK_FALSE(client->readable(a_while));
  CHECK(world.connect()->ask(ping, pong.size()) == pong);
  world.ground.recording.admission = keyspace::Admission::granted;
  world.server.journal_progressed();
  CHECK(client->receive(4 + pong.size()) == ":1\r\n" + pong);
}

TEST_CASE("room in the journal that comes while other clients are served is not missed") {
  JournalWorld world;
  const auto client = world.connect();
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      SocketClient other(world.server.port());
      while (!done && other.ask(ping, pong.size()) == pong) continue;
    });
  }
  int answered = 0;
  for (int round = 0; round < 2'000 && answered == round; ++round) {
    world.ground.recording.grants_left = 0;
    if (!client->send(ping + add(round))) break;
    // The turn that answers the first request puts off the second one.
    if (client->receive(pong.size()) != pong) break;
    world.ground.recording.grants_left = 1'000;
    world.server.journal_progressed();
    if (client->receive(4).size() == 4) ++answered;
  }
  done = true;
  for (auto& other : others) other.join();
  CHECK(answered == 2'000);
}

TEST_CASE(
    "room in the journal that comes while earlier replies are held, or behind a long reply, is not missed") {
  JournalWorld world;
  const auto client = world.connect();
  REQUIRE(client->ask(add(0), 4) == ":1\r\n");
  const auto put_off = [&] {
    return eventually([&] { return world.ground.recording.grants_left < 0; }) &&
           world.connect()->ask(ping, pong.size()) == pong;
  };
  const auto make_room = [&] {
    world.ground.recording.grants_left = 1'000;
    world.server.journal_progressed();
    REQUIRE(world.connect()->ask(ping, pong.size()) == pong);
  };
  SECTION("held") {
    world.ground.recording.awaited = 1;
    world.ground.recording.grants_left = 1;
    REQUIRE(client->send(add(1) + ping + add(2)));
    REQUIRE(put_off());
    world.ground.recording.awaited = 0;
    make_room();
    world.make_durable(1);
    CHECK(client->readable(test::patience));
    CHECK(client->receive(4 + pong.size()) == ":1\r\n" + pong);
    REQUIRE(client->readable(test::patience));
    CHECK(client->receive(4) == ":1\r\n");
  }
  SECTION("behind a long reply") {
    // More bytes than the system buffers between client and server.
    const std::string text(std::size_t{32} << 20, 'x');
    world.ground.recording.grants_left = 0;
    REQUIRE(client->send(request({"ECHO", text}) + add(1)));
    const std::size_t echo_bytes = request({text}).size() - 4;
    REQUIRE(client->receive(echo_bytes).size() == echo_bytes);
    REQUIRE(put_off());
    make_room();
    REQUIRE(client->readable(test::patience));
    CHECK(client->receive(4) == ":1\r\n");
  }
}

TEST_CASE("a stop sends replies that become durable in time, and drops the others") {
  JournalWorld world;
  world.ground.recording.awaited = 1;
  const auto lucky = world.connect();
  REQUIRE(lucky->send(add(1)));
  world.await_batches(1);
  world.ground.recording.awaited = 2;
  const auto unlucky = world.connect();
  REQUIRE(unlucky->send(add(2)));
  world.await_batches(2);
  std::thread stopper([&] { world.server.stop(std::chrono::seconds(3)); });
  CHECK(eventually([&] { return !SocketClient(world.server.port()).connected(); }));
  world.make_durable(1);
  CHECK(lucky->receive_until_closed() == ":1\r\n");
  stopper.join();
  CHECK(unlucky->receive_until_closed().empty());
  CHECK(world.server.count() == 0);
}

}  // namespace
}  // namespace sepal::server::server_journal_test
