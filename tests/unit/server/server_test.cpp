#include <sepal/command/users/users.hpp>
#include <sepal/server/server.hpp>
#include <sepal/session/session.hpp>

#include "support/catch.hpp"
#include "unit/server/server_world.hpp"

namespace sepal::server::server_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

TEST_CASE("a client connects, is answered and leaves") {
  StartedWorld world;
  {
    const auto client = world.connect();
    CHECK(client->ask(ping, pong.size()) == pong);
    const auto clients = world.clients();
    REQUIRE(clients.size() == 1);
    CHECK(clients[0].id == 1);
    CHECK(clients[0].address.starts_with("127.0.0.1:"));
    CHECK(clients[0].local_address == "127.0.0.1:" + std::to_string(world.server.port()));
    CHECK(clients[0].authenticated);
    CHECK(world.server.count() == 1);
  }
  CHECK(eventually([&] { return world.server.count() == 0; }));
  CHECK(world.server.accepted_count() == 1);
}

TEST_CASE("connections are divided evenly among the workers, and listed in the order of arrival") {
  StartedWorld world(any_port(2));
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(world.connect());
    REQUIRE(clients.back()->ask(ping, pong.size()) == pong);
  }
  CHECK(world.ground.workers[0].requests.get() == 32);
  CHECK(world.ground.workers[1].requests.get() == 32);
  const auto listed = world.clients();
  REQUIRE(listed.size() == 64);
  for (std::size_t i = 0; i < listed.size(); ++i) CHECK(listed[i].id == i + 1);
}

TEST_CASE("a worker whose clients have left gets the next clients") {
  StartedWorld world(any_port(2));
  const auto& requests = world.ground.workers[0].requests;
  std::vector<std::unique_ptr<SocketClient>> of_first;
  std::vector<std::unique_ptr<SocketClient>> of_second;
  for (int i = 0; i < 8; ++i) {
    auto client = world.connect();
    const std::uint64_t before = requests.get();
    REQUIRE(client->ask(ping, pong.size()) == pong);
    (requests.get() == before ? of_second : of_first).push_back(std::move(client));
  }
  REQUIRE(of_first.size() == 4);
  of_first.clear();
  REQUIRE(eventually([&] { return world.server.count() == 4; }));
  const std::uint64_t before = requests.get();
  for (int i = 0; i < 4; ++i) {
    of_first.push_back(world.connect());
    REQUIRE(of_first.back()->ask(ping, pong.size()) == pong);
  }
  CHECK(requests.get() == before + 4);
}

TEST_CASE("the bytes of a client that is killed are counted to the last reply") {
  StartedWorld world;
  const auto client = world.connect();
  CHECK(client->ask(ping, pong.size()) == pong);
  // The bytes of a reply are usually counted in the next batch. Here there is no next batch.
  world.server.kill(world.clients().at(0).id);
  const auto& worker = world.ground.workers[0];
  CHECK(eventually([&] { return worker.bytes_out.get() == pong.size(); }));
  CHECK(worker.bytes_in.get() == ping.size());
}

TEST_CASE("workers that close the gate for their clients' requests do not lose or mix any") {
  StartedWorld world(any_port(2));
  std::vector<std::unique_ptr<SocketClient>> clients;
  constexpr std::size_t rounds = 200;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(world.connect());
    const std::string name = "client" + std::to_string(i);
    REQUIRE(clients.back()->send(repeated(request({"ECHO", name}) + request({"FLUSHALL"}), rounds)));
  }
  for (int i = 0; i < 8; ++i) {
    const std::string expected = repeated("$7\r\nclient" + std::to_string(i) + "\r\n+OK\r\n", rounds);
    CHECK(clients[static_cast<std::size_t>(i)]->receive(expected.size()) == expected);
  }
}

TEST_CASE("a pipeline longer than a batch is answered whole") {
  StartedWorld world;
  const auto client = world.connect();
  constexpr std::size_t count = 50'000;
  std::thread sender([&] { client->send(repeated(ping, count)); });
  CHECK(client->receive(count * pong.size()) == repeated(pong, count));
  sender.join();
}

TEST_CASE("a killed client is closed, and other clients are not") {
  StartedWorld world(any_port(2));
  const auto victim = world.connect();
  const auto other = world.connect();
  REQUIRE(victim->ask(ping, pong.size()) == pong);
  REQUIRE(other->ask(ping, pong.size()) == pong);
  world.server.kill(1);
  world.server.kill(1000);
  CHECK(victim->receive_until_closed().empty());
  CHECK(other->ask(ping, pong.size()) == pong);
  CHECK(world.clients().size() == 1);
}

TEST_CASE("the allowed number of clients is served; one more gets an error and is closed") {
  ServerWorld world(any_port(2));
  world.ground.options.clients_max = 2;
  world.start();
  auto first = world.connect();
  const auto second = world.connect();
  REQUIRE(first->ask(ping, pong.size()) == pong);
  REQUIRE(second->ask(ping, pong.size()) == pong);
  const auto third = world.connect();
  CHECK(third->receive_until_closed() == "-ERR max number of clients reached\r\n");
  CHECK(world.server.rejected_count() == 1);
  CHECK(world.server.accepted_count() == 2);
  first.reset();
  REQUIRE(eventually([&] { return world.server.count() == 1; }));
  CHECK(world.connect()->ask(ping, pong.size()) == pong);
  world.server.reset_counts();
  CHECK(world.server.rejected_count() == 0);
}

TEST_CASE("a new client takes the place of one that has not logged in, and of no other") {
  ServerWorld world(any_port(2));
  world.ground.options.clients_max = 4;
  world.services.users->set_default_password("sesame");
  world.start();
  const std::string login = request({"AUTH", "sesame"});
  // The strangers may be clients of the other worker: then one of them makes room for the next try.
  const auto enter = [&] {
    std::unique_ptr<SocketClient> client;
    REQUIRE(eventually([&] {
      client = world.connect();
      return client->ask(login, 5) == "+OK\r\n";
    }));
    return client;
  };
  const auto first = enter();
  std::vector<std::unique_ptr<SocketClient>> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(world.connect());
  const auto second = enter();
  const auto third = enter();
  CHECK(first->ask(ping, pong.size()) == pong);
  CHECK(second->ask(ping, pong.size()) == pong);
  // 22 came for the three places that the first one left.
  REQUIRE(eventually([&] { return world.server.rejected_count() >= 18; }));
  const auto fourth = enter();
  REQUIRE(eventually([&] { return world.server.count() == 4; }));
  // All have logged in: now the bound holds as without a password.
  CHECK(world.connect()->receive_until_closed() == "-ERR max number of clients reached\r\n");
  for (const auto* client : {&first, &second, &third, &fourth})
    CHECK((*client)->ask(ping, pong.size()) == pong);
}

TEST_CASE("a client that does not read is served on, as others are, and nothing is lost") {
  ServerWorld world;
  world.ground.options.output_bytes_max = 100'000;
  world.start();
  const auto slow = world.connect();
  const std::string item(50'000, 'x');
  const std::string one = request({"ECHO", item});
  constexpr std::size_t count = 600;
  REQUIRE(slow->send(repeated(one, count)));
  CHECK(world.connect()->ask(ping, pong.size()) == pong);
  CHECK(eventually([&] { return world.ground.workers[0].requests.get() == count + 1; }));
  const auto clients = world.clients();
  REQUIRE(!clients.empty());
  CHECK(clients[0].bytes_unsent > 0);

  const std::string reply = "$50000\r\n" + item + "\r\n";
  bool all_equal = true;
  for (std::size_t i = 0; i < count; ++i) all_equal = all_equal && slow->receive(reply.size()) == reply;
  CHECK(all_equal);
}

TEST_CASE("above the bound of waiting replies, the client with most of them is closed") {
  ServerWorld world(any_port(2));
  world.ground.options.clients_memory_max = 1'000'000;
  world.start();
  const auto small = world.connect();
  const auto large = world.connect();
  for (SocketClient* const client : {small.get(), large.get()})
    REQUIRE(client->ask(ping, pong.size()) == pong);
  const std::string one = request({"ECHO", std::string(50'000, 'x')});
  const std::string reply = "$50000\r\n" + std::string(50'000, 'x') + "\r\n";
  REQUIRE(small->send(one));
  for (int i = 0; i < 2000 && large->send_some(one, std::chrono::milliseconds(500)) > 0; ++i)
    if (world.server.count() == 1) break;
  CHECK(eventually([&] { return world.server.count() == 1; }));
  CHECK(world.services.buffers.closed_count() == 1);
  CHECK(small->receive(reply.size()) == reply);
  CHECK(eventually([&] { return world.services.buffers.replies() == 0; }));
}

TEST_CASE("above the bound of unfinished requests, the client with most of them is closed") {
  ServerWorld world(any_port(2));
  world.ground.options.clients_memory_max = 1'000'000;
  world.start();
  const auto small = world.connect();
  const auto large = world.connect();
  const std::string item(400'000, 'x');
  const std::string small_request = request({"ECHO", item});
  REQUIRE(small->send(small_request.substr(0, 200'000)));
  CHECK(eventually([&] { return world.services.buffers.requests() >= 200'000; }));
  static_cast<void>(large->send(request({"ECHO", std::string(2'000'000, 'x')}).substr(0, 1'900'000)));
  CHECK(eventually([&] { return world.server.count() == 1; }));
  REQUIRE(small->send(small_request.substr(200'000)));
  CHECK(small->receive(9 + item.size() + 2) == "$400000\r\n" + item + "\r\n");
  CHECK(world.services.buffers.closed_count() == 1);
  CHECK(eventually([&] { return world.services.buffers.total() == 0; }));
}

TEST_CASE("what a client has queued no longer counts when its connection has ended") {
  StartedWorld world;
  const auto client = world.connect();
  CHECK(client->ask(request({"WATCH", "key"}) + request({"MULTI"}), 10) == "+OK\r\n+OK\r\n");
  const std::string queued = "+QUEUED\r\n";
  CHECK(client->ask(request({"ECHO", std::string(100'000, 'x')}), queued.size()) == queued);
  CHECK(eventually([&] { return world.services.buffers.requests() >= 100'000; }));
  CHECK(client->ask(request({"QUIT"}), 5) == "+OK\r\n");
  // The client keeps its side open, so the server waits for its end.
  CHECK(eventually([&] { return world.server.count() == 0; }));
  CHECK(world.services.buffers.total() == 0);
}

TEST_CASE("queued commands count as requests, and the client with most of them is closed") {
  ServerWorld world(any_port(2));
  world.ground.options.clients_memory_max = 1'000'000;
  world.start();
  const auto small = world.connect();
  const auto large = world.connect();
  const std::string queued = "+QUEUED\r\n";
  const std::string echo = request({"ECHO", std::string(100'000, 'x')});
  CHECK(small->ask(request({"MULTI"}), 5) == "+OK\r\n");
  CHECK(small->ask(echo, queued.size()) == queued);
  CHECK(eventually([&] { return world.services.buffers.requests() >= 100'000; }));
  REQUIRE(eventually([&] { return world.server.count() == 2; }));
  REQUIRE(large->send(request({"MULTI"})));
  for (int i = 0; i < 20; ++i)
    if (!large->send(echo)) break;
  CHECK(eventually([&] { return world.server.count() == 1; }));
  CHECK(world.services.buffers.closed_count() == 1);
  CHECK(small->ask(request({"DISCARD"}), 5) == "+OK\r\n");
  CHECK(eventually([&] { return world.services.buffers.total() == 0; }));
}

TEST_CASE("a client that has ended its sending side gets all replies, then the end") {
  StartedWorld world;
  const auto client = world.connect();
  REQUIRE(client->send(repeated(ping, 3000)));
  client->end_sending();
  CHECK(client->receive_until_closed() == repeated(pong, 3000));
}

TEST_CASE("the protocol error arrives even if more bytes follow") {
  StartedWorld world;
  for (int round = 0; round < 20; ++round) {
    const auto client = world.connect();
    REQUIRE(client->send(ping + "*1\r\n$x\r\n" + std::string(600'000, 'z')));
    CHECK(client->receive_until_closed() == pong + "-ERR Protocol error: invalid bulk length\r\n");
  }
}

TEST_CASE("a client that waits for a save is answered when it has ended") {
  StartedWorld world(any_port(2));
  const auto client = world.connect();
  REQUIRE(client->send(request({"SAVE"}) + ping));
  REQUIRE(eventually([&] { return world.ground.persistence.waiting_id == 1; }));
  world.server.answer(1, [](resp::Reply& reply) { reply.ok(); });
  CHECK(client->receive(5 + pong.size()) == "+OK\r\n" + pong);
  world.server.answer(1, [](resp::Reply& reply) { reply.ok(); });
  world.server.answer(1000, [](resp::Reply& reply) { reply.ok(); });
  CHECK(client->ask(ping, pong.size()) == pong);
}

TEST_CASE("a background job is cancelled when its client leaves, and not before") {
  StartedWorld world(any_port(2));
  auto& adoptions = world.ground.adoptions;
  auto leaving = world.connect();
  const auto staying = world.connect();
  REQUIRE(leaving->send(request({"BF.IMPORT", "a", "file"})));
  REQUIRE(eventually([&] { return adoptions.count == 1; }));
  REQUIRE(staying->send(request({"BF.IMPORT", "b", "file"}) + ping));
  REQUIRE(eventually([&] { return adoptions.count == 2; }));
  const auto left = adoptions.waiting[0].client_gone;
  const auto stayed = adoptions.waiting[1].client_gone;
  CHECK_FALSE(*left);
  leaving.reset();
  CHECK(eventually([&] { return left->load(); }));
  CHECK_FALSE(*stayed);
  world.server.answer(adoptions.waiting[1].client_id, [](resp::Reply& reply) { reply.ok(); });
  CHECK(staying->receive(5 + pong.size()) == "+OK\r\n" + pong);
  world.server.stop(stop_patience);
  CHECK_FALSE(*stayed);
}

TEST_CASE("idle clients are closed after the time allowed") {
  ServerWorld world;
  world.ground.options.idle_timeout = std::chrono::seconds(1);
  world.start();
  const auto client = world.connect();
  CHECK(client->ask(ping, pong.size()) == pong);
  CHECK(client->receive_until_closed().empty());
}

TEST_CASE("a stop answers the requests sent before it, then closes") {
  StartedWorld world(any_port(2));
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(world.connect());
    REQUIRE(clients.back()->ask(ping, pong.size()) == pong);
  }
  std::thread stopper;
  {
    // The workers wait at the gate, so most of the requests have not been read when the stop begins.
    const GateClosed closed(world.ground.gate);
    for (const auto& client : clients) REQUIRE(client->send(repeated(ping, 3000)));
    stopper = std::thread([&] { world.server.stop(test::patience); });
    CHECK(eventually([&] { return !SocketClient(world.server.port()).connected(); }));
  }
  stopper.join();
  for (const auto& client : clients) CHECK(client->receive_until_closed() == repeated(pong, 3000));
  CHECK(world.server.count() == 0);
  CHECK_FALSE(SocketClient(world.server.port()).connected());
}

TEST_CASE("a stop closes clients that do not read, or that wait for an answer") {
  StartedWorld world;
  const auto waiting = world.connect();
  REQUIRE(waiting->send(request({"SAVE"})));
  REQUIRE(eventually([&] { return world.ground.persistence.waiting_id == 1; }));
  const auto slow = world.connect();
  REQUIRE(slow->send(repeated(request({"ECHO", std::string(50'000, 'x')}), 400)));
  REQUIRE(eventually([&] { return world.services.buffers.replies() > 0; }));
  const auto start = std::chrono::steady_clock::now();
  world.server.stop(std::chrono::milliseconds(100));
  CHECK(std::chrono::steady_clock::now() - start < test::patience);
  CHECK(world.server.count() == 0);
  CHECK(waiting->receive_until_closed().empty());
}

}  // namespace
}  // namespace sepal::server::server_test
