// The thread that accepts connections and hands each to the worker with the fewest.
//
// It is a thread of its own so that a worker in a long batch does not keep new clients out, and so that a
// storm of connections does not slow a worker's clients.
#pragma once

#include <sepal/base/result.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "listener.hpp"
#include "worker.hpp"

namespace sepal::server {

// Belongs to the thread that made it.
class Acceptor {
 public:
  explicit Acceptor(std::span<const std::unique_ptr<Worker>> workers);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Accepts from now on. Errors: io.
  Result<void> start(std::vector<Listener> listeners);
  // Closes the listeners; when it returns no worker is given a connection any more.
  void stop();

 private:
  struct Door {
    Listener listener;
    boost::asio::posix::stream_descriptor descriptor;
    boost::asio::steady_timer pause_timer;  // Its own: a timer that is set anew ends the pause of another.
  };

  void await(Door& door);
  void accept_waiting(Door& door);
  void pause(Door& door, int error);
  void hand_over(Door& door, Descriptor descriptor);

  std::span<const std::unique_ptr<Worker>> workers_;
  boost::asio::io_context context_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::uint64_t last_id_ = 0;
  bool pause_logged_ = false;
  std::thread thread_;
};

}  // namespace sepal::server
