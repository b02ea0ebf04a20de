#include <sepal/base/assert.hpp>
#include <sepal/server/server.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#include "server/acceptor.hpp"
#include "server/client_counts.hpp"
#include "server/listener.hpp"
#include "server/worker.hpp"

namespace sepal::server {

class Server::Implementation {
 public:
  Implementation(const ServerOptions& options, Gate& gate, command::Services& services,
                 const tls::Current* tls)
      : options_(options) {
    SEPAL_ASSERT(options.worker_count >= 1 && gate.side_count() >= options.worker_count &&
                     services.workers.size() == options.worker_count,
                 "every worker has a side of the gate and statistics");
    SEPAL_ASSERT(options.tls_port == 0 || tls != nullptr, "a TLS port has a certificate");
    const HandshakeOptions handshakes{.tls = options.tls_port == 0 ? nullptr : tls,
                                      .count_max = handshakes_max_of(options.worker_count)};
    for (std::size_t index = 0; index < options.worker_count; ++index) {
      workers_.push_back(std::make_unique<Worker>(index, gate, services, counts_, handshakes, [this, index] {
        for (std::size_t other = 0; other < workers_.size(); ++other)
          if (other != index) workers_[other]->give_place();
      }));
    }
    acceptor_ = std::make_unique<Acceptor>(workers_, counts_, options.look_interval);
  }
  // Without stop(), the threads still run. All end before the first worker goes: they give clients to each
  // other.
  ~Implementation() {
    acceptor_.reset();
    for (const auto& worker : workers_) worker->halt();
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  Result<void> start() {
    SEPAL_ASSERT(!std::exchange(started_, true), "a server is started once");
    // The ports come first: if an address is taken, no thread has started yet. The acceptor starts last,
    // because it hands connections to the workers.
    Result<std::vector<Listener>> listeners = open_listeners(options_);
    if (!listeners) return listeners.error();
    for (const Listener& listener : *listeners)
      if (listener.kind == StreamKind::tcp) port_ = listener.port;
    for (const auto& worker : workers_) {
      if (auto started = worker->start(); !started) return started;
    }
    return acceptor_->start(std::move(*listeners));
  }

  void stop(std::chrono::milliseconds patience) {
    // First, so that no connection reaches a worker that is already stopping.
    acceptor_->stop();
    const SteadyTime deadline = std::chrono::steady_clock::now() + patience;
    // All workers begin to stop before the first one is joined, so that they share one deadline.
    for (const auto& worker : workers_) worker->stop(deadline);
    for (const auto& worker : workers_) worker->join();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  // How many handshakes all workers together may have. Their descriptors are the server's own, and take none
  // from clients.
  [[nodiscard]] std::uint64_t handshakes_max() const {
    return options_.tls_port == 0 ? 0 : options_.worker_count * handshakes_max_of(options_.worker_count);
  }
  [[nodiscard]] const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }
  [[nodiscard]] ClientCounts& counts() { return counts_; }
  [[nodiscard]] Acceptor& acceptor() { return *acceptor_; }

 private:
  ServerOptions options_;
  ClientCounts counts_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;  // after workers_, to be destroyed first: its thread calls them
  bool started_ = false;
  std::uint16_t port_ = 0;
};

std::uint64_t own_descriptors(const ServerOptions& options) {
  const std::uint64_t of_handshakes =
      options.tls_port == 0 ? 0 : Handshakes::descriptors + handshakes_max_of(options.worker_count);
  return listeners_max(options) + options.worker_count * (Worker::descriptors + of_handshakes) +
         Acceptor::descriptors;
}

Server::Server(const ServerOptions& options, Gate& gate, command::Services& services, const tls::Current* tls)
    : implementation_(std::make_unique<Implementation>(options, gate, services, tls)) {}
Server::~Server() = default;

Result<void> Server::start() {
  return implementation_->start();
}

std::uint16_t Server::port() const {
  return implementation_->port();
}

void Server::set_sockets_max(std::uint64_t count) {
  implementation_->acceptor().set_sockets_max(count + implementation_->handshakes_max());
}

void Server::serve(std::size_t worker_count) {
  implementation_->acceptor().serve(worker_count);
}

void Server::stop(std::chrono::milliseconds patience) {
  implementation_->stop(patience);
}

// All workers are told, because only the client's own worker knows that it has the client. A shared table
// would make every new connection take a lock, for a look-up that is rare.
void Server::answer(std::uint64_t client_id, std::function<void(resp::Reply&)> append) {
  SEPAL_ASSERT(client_id != 0, "an answer for no client");
  for (const auto& worker : implementation_->workers()) worker->answer(client_id, append);
}

void Server::journal_progressed() {
  for (const auto& worker : implementation_->workers()) worker->journal_progressed();
}

// The last worker is not known before, so the workers share the count and the callback.
void Server::ask_workers(std::function<void()> all_taken) {
  SEPAL_ASSERT(all_taken != nullptr, "the workers are asked without a question");
  const auto& workers = implementation_->workers();
  const auto left = std::make_shared<std::atomic<std::size_t>>(workers.size());
  const auto told = std::make_shared<std::function<void()>>(std::move(all_taken));
  for (const auto& worker : workers) {
    worker->take_turn_for([left, told] {
      if (left->fetch_sub(1) == 1) (*told)();
    });
  }
}

void Server::kill(std::uint64_t id) {
  // As in answer(): only the client's own worker knows that it has the client.
  for (const auto& worker : implementation_->workers()) worker->kill(id);
}

void Server::push(std::size_t worker, std::uint64_t id, std::shared_ptr<const std::string> bytes) {
  SEPAL_ASSERT(worker < implementation_->workers().size(), "a client of a worker that is not there");
  implementation_->workers()[worker]->push(id, std::move(bytes));
}

void Server::pause_ended() {
  for (const auto& worker : implementation_->workers()) worker->pause_ended();
}

void Server::for_each(const std::function<void(command::ClientState&)>& visit) {
  std::vector<command::ClientState*> clients;
  for (const auto& worker : implementation_->workers()) worker->collect(clients);
  std::sort(clients.begin(), clients.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  for (command::ClientState* const client : clients) visit(*client);
}

std::uint64_t Server::count() const {
  return implementation_->counts().connected.load();
}
std::uint64_t Server::accepted_count() const {
  return implementation_->counts().accepted.load();
}
std::uint64_t Server::rejected_count() const {
  return implementation_->counts().rejected.load();
}

std::uint64_t Server::denied_count() const {
  return implementation_->counts().denied.load();
}

command::HandshakeCounts Server::handshake_counts() const {
  const HandshakeTallies& tallies = implementation_->counts().handshakes;
  return {.under_way = tallies.under_way.load(),
          .certificate_refused = tallies.certificate_refused.load(),
          .refused_by_client = tallies.refused_by_client.load(),
          .not_tls = tallies.not_tls.load(),
          .closed = tallies.closed.load(),
          .too_slow = tallies.too_slow.load(),
          .displaced = tallies.displaced.load()};
}

void Server::reset_counts() {
  implementation_->counts().handshakes.reset();
  implementation_->counts().accepted.store(0);
  implementation_->counts().denied.store(0);
  implementation_->counts().rejected.store(0);
}

}  // namespace sepal::server
