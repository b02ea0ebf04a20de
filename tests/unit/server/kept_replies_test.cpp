#include <sepal/server/server.hpp>

#include "support/catch.hpp"
#include "unit/server/folder.hpp"
#include "unit/server/server_world.hpp"

namespace sepal::server::kept_replies_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";

// Uses a UNIX socket, because it takes fewer bytes at once than TCP does.
TEST_CASE("replies that are kept while other clients have their turn are sent whole, each to its client") {
  const Folder folder;
  ServerOptions options = any_port();
  options.unix_socket = folder.file("socket");
  StartedWorld world(options);

  const std::string ask_docs = request({"COMMAND", "DOCS"});
  SocketClient reader(options.unix_socket);
  REQUIRE(reader.send(ask_docs));
  reader.end_sending();
  const std::string docs = reader.receive_until_closed();
  constexpr std::size_t docs_count = 25;
  REQUIRE(docs.size() * docs_count > 500'000);

  const std::string all_docs = repeated(docs, docs_count);

  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < 40; ++i) clients.push_back(std::make_unique<SocketClient>(options.unix_socket));
  for (const auto& client : clients) REQUIRE(client->ask(ping, pong.size()) == pong);
  // Some clients get more bytes than the socket takes. Others send so little that they are served in rounds.
  const auto asks_docs = [](std::size_t client) { return client == 1 || client == 6; };
  const auto asks_little = [](std::size_t client) { return client >= 12; };
  const auto echo_count = [&](std::size_t client) -> std::size_t { return asks_little(client) ? 3 : 1500; };
  const auto payload = [](std::size_t client) { return "payload of client " + std::to_string(10 + client); };
  {
    // The worker waits in the first client's batch, and finds all other clients ready in its next turn.
    const GateClosed closed(world.ground.gate);
    REQUIRE(clients[0]->send(ping));
    for (std::size_t i = 1; i < clients.size(); ++i)
      REQUIRE(clients[i]->send(asks_docs(i) ? repeated(ask_docs, docs_count)
                                            : repeated(request({"ECHO", payload(i)}), echo_count(i))));
    clients[2]->end_sending();
  }
  CHECK(clients[0]->receive(pong.size()) == pong);
  for (std::size_t i = 2; i < clients.size(); ++i) {
    if (asks_docs(i)) continue;
    const std::string expected = repeated("$20\r\n" + payload(i) + "\r\n", echo_count(i));
    CHECK(clients[i]->receive(expected.size()) == expected);
  }
  CHECK(clients[2]->receive_until_closed().empty());
  for (const std::size_t i : {1, 6}) CHECK((clients[i]->receive(all_docs.size()) == all_docs));
  for (const std::size_t i : {1, 3, 6, 11, 12, 39}) CHECK(clients[i]->ask(ping, pong.size()) == pong);
}

}  // namespace
}  // namespace sepal::server::kept_replies_test
