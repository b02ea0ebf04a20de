// The acceptor's thread accepts connections, and hands each one to the serving worker with the fewest
// connections. It also looks at the workers, and tells them which of them serve (server/duty.hpp).
//
// The acceptor has a thread of its own for two reasons: a worker in a long batch must not keep new clients
// out, and many new connections at once must not slow a worker's clients.
//
// Clients must not take the descriptors that the rest of the process needs. So the number of open sockets has
// a limit (set_sockets_max), above which the acceptor refuses a connection itself. The system may run out of
// descriptors before that. For this case the acceptor keeps a spare descriptor: it closes the spare, accepts
// the connection in its place, refuses it, and opens a spare again.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/descriptor.hpp>
#include <sepal/base/result.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "server/client_counts.hpp"
#include "server/duty.hpp"
#include "server/idle_cores.hpp"
#include "server/listener.hpp"
#include "server/refusal.hpp"
#include "server/worker.hpp"

namespace sepal::server {

// Confined to the thread that made it, except where a member says otherwise.
class Acceptor {
 public:
  // Descriptors that an acceptor has open: three of Asio's context, the spare one, the connection that is
  // being refused, and that of IdleCores.
  static constexpr std::uint64_t descriptors = 6;

  // `look_interval`: see ServerOptions.
  Acceptor(std::span<const std::unique_ptr<Worker>> workers, ClientCounts& counts,
           std::chrono::milliseconds look_interval);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Starts the acceptor's thread and accepts from now on. Errors: io.
  Result<void> start(std::vector<Listener> listeners);
  // Closes the listeners. When it returns, no worker gets a new connection any more.
  void stop();
  // Any thread. See Server::set_sockets_max().
  void set_sockets_max(std::uint64_t count) { sockets_max_.store(count, std::memory_order_relaxed); }
  // Any thread. See Server::serve().
  void serve(std::size_t worker_count);

 private:
  struct Door {
    Listener listener;
    boost::asio::posix::stream_descriptor descriptor;
    boost::asio::steady_timer pause_timer;  // not shared: to set a timer again cancels its wait
  };

  void await(Door& door);
  void accept_waiting(Door& door);
  bool refuse_with_spare(Door& door, int error);
  void turn_away(const Door& door, Descriptor descriptor, const sockaddr_storage& peer, Refusal refusal);
  [[nodiscard]] bool has_room(StreamKind kind) const;
  void pause(Door& door, int error);
  void schedule_look();
  void look();
  void tell(std::span<const Duty::Gift> gifts);
  void hand_over(Door& door, Descriptor descriptor, const sockaddr_storage& peer);

  std::span<const std::unique_ptr<Worker>> workers_;
  ClientCounts& counts_;
  std::atomic<std::uint64_t> sockets_max_{std::numeric_limits<std::uint64_t>::max()};  // a gauge
  Descriptor spare_;
  RefusalLog refusals_;
  std::unique_ptr<char[]> scrap_;
  boost::asio::io_context context_;
  std::vector<std::unique_ptr<Door>> doors_;  // pointers, because handlers refer to a Door
  std::uint64_t last_id_ = 0;
  bool pause_logged_ = false;

  std::chrono::milliseconds look_interval_;
  boost::asio::steady_timer look_timer_;
  Duty duty_;
  IdleCores idle_cores_;
  // What the last look saw of each worker, and what it told the worker.
  struct Seen {
    std::chrono::nanoseconds cpu_time{};
    std::uint64_t long_batches = 0;
    std::optional<Duty::Gift> gift{};
  };
  std::vector<Seen> seen_;
  SteadyTime looked_at_{};
  std::thread thread_;
};

}  // namespace sepal::server
