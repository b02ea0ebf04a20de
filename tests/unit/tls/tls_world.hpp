// A server's and a client's side of TLS over a pair of sockets.
#pragma once

#include <sepal/base/descriptor.hpp>
#include <sepal/tls/connection.hpp>
#include <sepal/tls/context.hpp>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/socket.h>

#include "support/catch.hpp"
#include "support/certificates.hpp"

namespace sepal::tls::test {

using sepal::test::TestCertificate;

// A folder that goes with the test, with a CA and what it has signed.
struct Files {
  Files() = default;
  ~Files() { std::filesystem::remove_all(folder); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return folder + "/" + name; }
  [[nodiscard]] Options options(AuthClients auth_clients = AuthClients::no) const {
    return {.certificate_file = server.certificate_file,
            .key_file = server.key_file,
            .ca_file = ca.certificate_file,
            .auth_clients = auth_clients};
  }
  [[nodiscard]] Context::ClientOptions client_options() const { return {.ca_file = ca.certificate_file}; }

  static std::string make_folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "sepal-tls-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    return pattern;
  }

  const std::string folder = make_folder();
  const TestCertificate ca{path("ca"), {.common_name = "CA"}};
  const TestCertificate server{path("server"), {}, &ca};
  const TestCertificate alice{path("alice"), {.common_name = "alice"}, &ca};
};

inline std::shared_ptr<const Context> loaded(const Result<std::shared_ptr<const Context>>& context) {
  INFO((context ? std::string() : context.error().detail));
  REQUIRE(context.ok());
  return *context;
}

struct Pair {
  Pair(const std::shared_ptr<const Context>& server_context,
       const std::shared_ptr<const Context>& client_context, const std::string& server_name = "localhost") {
    std::array<int, 2> sockets{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets.data()) == 0);
    server_socket = Descriptor(sockets[0]);
    client_socket = Descriptor(sockets[1]);
    server = std::make_unique<Connection>(*server_context, sockets[0]);
    client = std::make_unique<Connection>(*client_context, sockets[1], server_name);
  }

  // Lets both sides go on until neither waits for the other.
  void shake_hands() {
    for (int step = 0; step < 10; ++step) {
      if (client_status != Connection::Status::failed) client_status = client->handshake();
      if (server_status != Connection::Status::failed) server_status = server->handshake();
    }
  }
  [[nodiscard]] bool both_done() const {
    return client_status == Connection::Status::done && server_status == Connection::Status::done;
  }

  Descriptor server_socket;
  Descriptor client_socket;
  std::unique_ptr<Connection> server;
  std::unique_ptr<Connection> client;
  Connection::Status server_status = Connection::Status::wants_read;
  Connection::Status client_status = Connection::Status::wants_read;
};

}  // namespace sepal::tls::test
