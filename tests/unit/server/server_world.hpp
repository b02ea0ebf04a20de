// A server on a port that the system chooses, over an empty keyspace.
#pragma once

#include <sepal/server/server.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "unit/server/socket_client.hpp"
#include "unit/session/world.hpp"

namespace sepal::server::test {

using session::test::Ground;
using session::test::repeated;
using session::test::request;

inline constexpr std::chrono::milliseconds stop_patience{2000};

inline ServerOptions any_port(std::uint32_t worker_count = 1) {
  ServerOptions options;
  options.port = 0;
  options.worker_count = worker_count;
  options.look_interval = std::chrono::milliseconds(0);
  return options;
}

struct ServerWorld {
  explicit ServerWorld(const ServerOptions& options = any_port(), const tls::Current* tls = nullptr)
      : ground(options.worker_count),
        services(ground.services(server)),
        server(options, ground.gate, services, tls) {}
  ~ServerWorld() { server.stop(stop_patience); }
  ServerWorld(const ServerWorld&) = delete;
  ServerWorld& operator=(const ServerWorld&) = delete;

  void start() {
    const Result<void> started = server.start();
    INFO((started ? std::string() : started.error().detail));
    REQUIRE(started.ok());
  }

  std::unique_ptr<SocketClient> connect() {
    auto client = std::make_unique<SocketClient>(server.port());
    REQUIRE(client->connected());
    return client;
  }

  // What tests look at of a client's state.
  struct SeenClient {
    std::uint64_t id;
    std::string address;
    std::string local_address;
    bool authenticated;
    std::uint64_t bytes_unsent;
  };
  // In the order of for_each.
  std::vector<SeenClient> clients() {
    std::vector<SeenClient> found;
    const GateClosed closed(ground.gate);
    server.for_each([&found](const command::ClientState& client) {
      found.push_back({.id = client.id,
                       .address = client.address,
                       .local_address = client.local_address,
                       .authenticated = client.authenticated,
                       .bytes_unsent = client.bytes_unsent});
    });
    return found;
  }

  Ground ground;
  command::Services services;
  Server server;
};

struct StartedWorld : ServerWorld {
  explicit StartedWorld(const ServerOptions& options = any_port(), const tls::Current* tls = nullptr)
      : ServerWorld(options, tls) {
    start();
  }
};

}  // namespace sepal::server::test
