// Listeners, workers and connections on Asio.
//
// N workers, each a thread with its own io_context (epoll), its own connections and its own side of the gate.
// As many workers serve as the load needs, and the others rest (decisions/0049). A new connection goes to the
// serving worker with the fewest connections. While they serve requests, workers share the keyspace and the
// journal, and nothing else.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/tls/context.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sepal::server {

struct ServerOptions {
  // Addresses. If an address begins with '-', the server ignores that this machine lacks it.
  std::vector<std::string> bind{"127.0.0.1"};
  std::uint16_t port = 6379;   // 0: the system picks; with a UNIX socket or a TLS port: no plain TCP
  std::uint16_t tls_port = 0;  // at the same addresses; 0: no TLS
  std::uint32_t worker_count = 1;
  // How often the server looks whether fewer workers will do, or more are needed. 0: it does not, and all
  // serve until serve() is called.
  std::chrono::milliseconds look_interval{100};
  std::uint32_t listen_backlog = 511;
  std::string unix_socket;                // path; empty: none
  std::uint32_t unix_socket_mode = 0700;  // permissions of the path
};

// So many clients of the UNIX socket may connect beyond maxclients: when clients have taken all places, an
// operator can still see why, and act.
inline constexpr std::uint64_t operator_places = 4;

// So many connections may be open beyond those of clients: a new one is accepted, and then a client that has
// not logged in gives up its place.
inline constexpr std::uint64_t newcomer_places = 8;

// The descriptors that a server has open besides those of its clients.
[[nodiscard]] std::uint64_t own_descriptors(const ServerOptions& options);

// Synchronised, except start and stop, which only the thread that made the server may call.
class Server final : public command::ClientDirectory {
 public:
  // `services.clients` must be this server. The first sides of the gate are those of the workers. With a
  // tls_port, `tls` has a context before start(). It outlives the server.
  Server(const ServerOptions& options, Gate& gate, command::Services& services,
         const tls::Current* tls = nullptr);
  ~Server() override;

  // Opens all listeners, then starts the workers. Errors: in_use (with the address), io.
  Result<void> start();
  [[nodiscard]] std::uint16_t port() const;  // the one in use; after start()

  // Any thread. The most client sockets that may be open at a time. Sockets that are closing count too. The
  // server refuses a further socket, as it does above maxclients. There is no bound until it is set.
  void set_sockets_max(std::uint64_t count);

  // Accepts no more connections, lets running batches finish, sends what was answered (for at most
  // `patience`), closes all connections, joins the workers. After it returns no command runs.
  void stop(std::chrono::milliseconds patience);

  // Any thread. Answers a client that waits (Next::wait); ignored when it has gone.
  void answer(std::uint64_t client_id, std::function<void(resp::Reply&)> append);

  // Any thread. The journal is durable up to a further position, or has room again, or has begun to refuse:
  // connections that wait for that go on.
  void journal_progressed();

  // Any thread; only without a look_interval. So many workers serve from now on: 1 to all. Clients of the
  // others move to them, each when it asks.
  void serve(std::size_t worker_count);

  // Any thread. Has each worker take a turn, and calls `all_taken` on the worker that is the last.
  void ask_workers(std::function<void()> all_taken);

  void for_each(const std::function<void(command::ClientState&)>& visit) override;
  void kill(std::uint64_t id) override;
  void push(std::size_t worker, std::uint64_t id, std::shared_ptr<const std::string> bytes) override;
  void pause_ended() override;
  [[nodiscard]] std::uint64_t count() const override;
  [[nodiscard]] std::uint64_t accepted_count() const override;
  [[nodiscard]] std::uint64_t rejected_count() const override;
  [[nodiscard]] std::uint64_t denied_count() const override;
  [[nodiscard]] command::HandshakeCounts handshake_counts() const override;
  void reset_counts() override;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace sepal::server
