// The descriptors that a server opens, and its behaviour when there are none left for clients.
#include <sepal/server/server.hpp>

#include "support/catch.hpp"
#include "unit/server/folder.hpp"
#include "unit/server/server_world.hpp"

namespace sepal::server::descriptors_test {
namespace {

using namespace test;

const std::string ping = request({"PING"});
const std::string pong = "+PONG\r\n";
const std::string refusal = "-ERR max number of clients reached\r\n";

std::uint64_t descriptors_open() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::uint64_t>(std::distance(begin(all), end(all)));
}

// The descriptors of a server and of one client in the same process. No connection is refused meanwhile.
std::uint64_t descriptors_taken(const ServerOptions& options) {
  const std::uint64_t before = descriptors_open();
  StartedWorld world(options);
  SocketClient client =
      options.unix_socket.empty() ? SocketClient(world.server.port()) : SocketClient(options.unix_socket);
  REQUIRE(client.ask(ping, pong.size()) == pong);
  const std::uint64_t taken = descriptors_open() - before - 2 + 1;
  world.server.stop(stop_patience);
  return taken;
}

TEST_CASE("a server opens exactly the announced number of descriptors") {
  const Folder folder;
  ServerOptions options = any_port(3);
  options.bind = {"127.0.0.1", "127.0.0.2"};
  CHECK(descriptors_taken(options) == own_descriptors(options));
  options.unix_socket = folder.file("sepal.sock");
  CHECK(descriptors_taken(options) == own_descriptors(options));
}

TEST_CASE("a connection for which there is no descriptor gets an error and is closed") {
  ServerWorld world(any_port(2));
  world.server.set_sockets_max(2);
  world.start();
  auto first = world.connect();
  const auto second = world.connect();
  REQUIRE(first->ask(ping, pong.size()) == pong);
  REQUIRE(second->ask(ping, pong.size()) == pong);
  CHECK(world.connect()->receive_until_closed() == refusal);
  CHECK(world.server.rejected_count() == 1);
  CHECK(world.server.accepted_count() == 2);
  world.server.set_sockets_max(3);
  const auto third = world.connect();
  CHECK(third->ask(ping, pong.size()) == pong);
  CHECK(world.connect()->receive_until_closed() == refusal);
  first.reset();
  REQUIRE(test::eventually([&] { return world.connect()->ask(ping, pong.size()) == pong; }));
}

// A batch blocks a worker here, like a long batch does. Connections that are accepted meanwhile wait for it.
TEST_CASE("connections that wait for a busy worker count as open") {
  ServerWorld world;
  world.server.set_sockets_max(2);
  world.start();
  const auto first = world.connect();
  REQUIRE(first->ask(ping, pong.size()) == pong);
  const GateClosed closed(world.ground.gate);
  const auto second = world.connect();
  CHECK(world.connect()->receive_until_closed() == refusal);
}

}  // namespace
}  // namespace sepal::server::descriptors_test
