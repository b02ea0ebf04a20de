// Clients that move from worker to worker while they ask.
#include <sepal/tls/connection.hpp>
#include <sepal/tls/context.hpp>

#include <atomic>
#include <thread>

#include "support/catch.hpp"
#include "unit/server/server_world.hpp"
#include "unit/tls/tls_world.hpp"

namespace sepal::server::moving_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

std::uint64_t requests_of(const ServerWorld& world, std::size_t worker) {
  return world.ground.workers[worker].requests.get();
}

// Whether the client's requests run at the worker, after a while.
bool comes_to(const ServerWorld& world, std::size_t worker, SocketClient& client) {
  return eventually([&] {
    const std::uint64_t before = requests_of(world, worker);
    return client.ask(ping, pong.size()) == pong && requests_of(world, worker) > before;
  });
}

TEST_CASE("clients of a worker that rests move to one that serves, each when it asks") {
  StartedWorld world(any_port(2));
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(world.connect());
  for (const auto& client : clients) REQUIRE(client->ask(ping, pong.size()) == pong);
  REQUIRE(requests_of(world, 1) == 4);
  world.server.serve(1);
  for (const auto& client : clients) REQUIRE(comes_to(world, 0, *client));
  const std::uint64_t resting = requests_of(world, 1);
  for (const auto& client : clients) REQUIRE(client->ask(ping, pong.size()) == pong);
  clients.push_back(world.connect());
  CHECK(clients.back()->ask(ping, pong.size()) == pong);
  CHECK(requests_of(world, 1) == resting);
  const auto listed = world.clients();
  REQUIRE(listed.size() == 9);
  for (std::size_t i = 0; i < listed.size(); ++i) CHECK(listed[i].id == i + 1);
  CHECK(world.server.count() == 9);
  CHECK(world.server.accepted_count() == 9);
  // A worker that serves again gets the next clients, because it has the fewest.
  world.server.serve(2);
  CHECK(eventually([&] {
    clients.push_back(world.connect());
    return clients.back()->ask(ping, pong.size()) == pong && requests_of(world, 1) > resting;
  }));
}

TEST_CASE("a client that has moved is as it was") {
  StartedWorld world(any_port(2));
  const auto first = world.connect();
  const auto client = world.connect();
  const std::string ok = "+OK\r\n";
  REQUIRE(client->ask(request({"SELECT", "5"}) + request({"CLIENT", "SETNAME", "mover"}), 10) == ok + ok);
  REQUIRE(client->send(request({"HELLO", "3"}) + ping));
  while (!client->receive(1).ends_with("P")) continue;
  REQUIRE(client->receive(5).starts_with("ONG"));
  world.server.serve(1);
  REQUIRE(comes_to(world, 0, *client));
  CHECK(client->ask(request({"GET", "absent"}), 3) == "_\r\n");
  CHECK(client->ask(request({"CLIENT", "GETNAME"}), 11) == "$5\r\nmover\r\n");
  client->send(request({"CLIENT", "INFO"}) + ping);
  std::string info;
  while (!info.ends_with(pong)) info += client->receive(1);
  for (const std::string_view field : {"id=2 ", " db=5 ", " resp=3 "})
    CHECK(info.find(field) != std::string::npos);
}

// Not by serve(): the server itself looks at its workers, often, so that the trial comes soon where the cores
// have other work.
TEST_CASE("a worker wakes when clients wait for long batches, and rests when they have ended") {
  ServerOptions options = any_port(2);
  options.look_interval = std::chrono::milliseconds(1);
  StartedWorld world(options);
  const auto client = world.connect();
  REQUIRE(client->ask(ping, pong.size()) == pong);
  CHECK(requests_of(world, 1) == 0);
  std::atomic<bool> ended = false;
  std::thread heavy([&] {
    const auto other = world.connect();
    std::string words;
    constexpr std::size_t items = 100'000;
    constexpr std::size_t reply_bytes = 9 + 4 * items;  // "*100000", then ":0" for each
    for (std::size_t item = 0; item < items; ++item) words += "$1\r\nx\r\n";
    const std::string long_request =
        "*" + std::to_string(items + 2) + "\r\n$10\r\nBF.MEXISTS\r\n$6\r\nabsent\r\n" + words;
    while (!ended && other->send(long_request) && !other->receive(reply_bytes).empty()) continue;
  });
  CHECK(comes_to(world, 1, *client));
  ended = true;
  heavy.join();
  CHECK(comes_to(world, 0, *client));
}

TEST_CASE("a client in a transaction moves when the transaction has ended") {
  StartedWorld world(any_port(2));
  const auto first = world.connect();
  const auto client = world.connect();
  REQUIRE(client->ask(request({"MULTI"}) + ping, 14) == "+OK\r\n+QUEUED\r\n");
  world.server.serve(1);
  REQUIRE(comes_to(world, 0, *world.connect()));
  const std::uint64_t before = requests_of(world, 0);
  REQUIRE(client->ask(ping, 9) == "+QUEUED\r\n");
  CHECK(client->ask(request({"EXEC"}), 18) == "*2\r\n+PONG\r\n+PONG\r\n");
  CHECK(requests_of(world, 0) == before);
  CHECK(comes_to(world, 0, *client));
}

TEST_CASE("clients that are moved on and on lose no reply, and those that are killed meanwhile are closed") {
  constexpr std::size_t workers = 3;
  constexpr std::size_t client_count = 12;
  constexpr std::size_t rounds = 300;
  StartedWorld world(any_port(workers));
  std::atomic<std::size_t> asking{client_count};
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (std::size_t i = 0; i < client_count; ++i) {
    clients.push_back(world.connect());
    REQUIRE(clients.back()->ask(ping, pong.size()) == pong);
  }
  std::vector<std::thread> threads;
  std::atomic<std::size_t> wrong{0};
  std::size_t miscounted = 0;
  for (std::size_t i = 0; i < client_count; ++i) {
    threads.emplace_back([&, i] {
      for (std::size_t round = 0; round < rounds; ++round) {
        const std::string text = "client " + std::to_string(i * rounds + round + 100000);
        const std::string reply = "$13\r\n" + text + "\r\n+PONG\r\n";
        if (clients[i]->ask(request({"ECHO", text}) + ping, reply.size()) != reply) ++wrong;
      }
      --asking;
    });
  }
  for (std::size_t serving = 1; asking > 0; serving = serving % workers + 1) {
    world.server.serve(serving);
    // As a client that looks at all others.
    const GateClosed closed(world.ground.gate);
    std::size_t seen = 0;
    world.server.for_each([&](const command::ClientState& /*client*/) { ++seen; });
    if (seen != client_count) ++miscounted;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(miscounted == 0);
  // Each client asks, so that it moves, and is killed.
  for (std::size_t i = 0; i < client_count; ++i) {
    world.server.serve(i % workers + 1);
    clients[i]->send(ping);
    {
      const GateClosed closed(world.ground.gate);
      world.server.for_each([&](command::ClientState& client) { client.to_be_closed |= client.id == i + 1; });
    }
    world.server.kill(i + 1);
    const std::string last = clients[i]->receive_until_closed();
    CHECK((last.empty() || last == pong || last.starts_with("Connection reset")));
  }
  CHECK(eventually([&] { return world.server.count() == 0; }));
}

// A client of TLS that waits for each reply.
class TlsClient {
 public:
  TlsClient(std::uint16_t port, const tls::Context& context)
      : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(descriptor_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    connection_ = std::make_unique<tls::Connection>(context, descriptor_.number(), "localhost");
    REQUIRE(connection_->handshake() == tls::Connection::Status::done);
  }

  std::string ask(std::string_view bytes, std::size_t reply_bytes) {
    connection_->send(bytes);
    std::string got;
    while (got.size() < reply_bytes) {
      std::string piece(reply_bytes - got.size(), '\0');
      const auto transfer = connection_->receive(piece);
      if (transfer.status != tls::Connection::Status::done) break;
      got += piece.substr(0, transfer.byte_count);
    }
    return got;
  }

 private:
  Descriptor descriptor_;
  std::unique_ptr<tls::Connection> connection_;
};

// Below the ports that the system gives to clients: one of these could have it before the server does.
std::uint16_t free_port() {
  for (auto port = static_cast<std::uint16_t>(10'000 + ::getpid() % 5'000);; ++port) {
    const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return port;
  }
}

TEST_CASE("a client of TLS moves, too") {
  const tls::test::Files files;
  const auto context = tls::test::loaded(tls::Context::load_for_client(files.client_options()));
  tls::Current current;
  current.set(tls::test::loaded(tls::Context::load(files.options())));
  ServerOptions options = any_port(2);
  options.tls_port = free_port();
  StartedWorld world(options, &current);
  TlsClient first(options.tls_port, *context);
  REQUIRE(first.ask(ping, pong.size()) == pong);
  TlsClient client(options.tls_port, *context);
  REQUIRE(client.ask(ping, pong.size()) == pong);
  for (const std::size_t serving : {1, 2, 1}) {
    world.server.serve(serving);
    const std::string pongs = repeated(pong, 50);
    for (int i = 0; i < 20; ++i) REQUIRE(client.ask(repeated(ping, 50), pongs.size()) == pongs);
  }
  CHECK(eventually([&] {
    const std::uint64_t before = requests_of(world, 1);
    return client.ask(ping, pong.size()) == pong && first.ask(ping, pong.size()) == pong &&
           requests_of(world, 1) == before;
  }));
}

}  // namespace
}  // namespace sepal::server::moving_test
