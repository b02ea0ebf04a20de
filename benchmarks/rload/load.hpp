// The load itself: all connections, driven from one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <sys/epoll.h>
#include <vector>

#include "options.hpp"
#include "reply_scanner.hpp"
#include "request_maker.hpp"

namespace rload {

using Clock = std::chrono::steady_clock;

struct Outcome {
  std::uint64_t completed = 0;
  std::uint64_t errors = 0;
  double seconds = 0;
  bool complete = true;  // no connection was closed by the server, or given up for its silence
  std::vector<std::uint32_t> latencies_us;  // of batches, sorted
};

struct Connection {
  int descriptor = -1;
  std::string out;  // the batch being sent
  std::size_t sent = 0;
  std::uint64_t replies_awaited = 0;
  Clock::time_point start;  // of the batch's latency
  ReplyScanner scanner;

  void send_more();
};

// Without a rate each connection sends its next batch when the last one is answered. With a rate batches are
// due at even intervals and go out on whichever connection has been idle longest. Their latency counts from
// when they were due, so that a server that stalls is charged for what it made wait outside as well.
class Load {
 public:
  // Connects, and prepares batches as far as memory allows.
  explicit Load(const Options& options);

  // Once. Ends when everything that the options ask for is answered, or, after SIGINT, what is under way.
  Outcome run();

 private:
  void prepare();
  void start_all();
  [[nodiscard]] bool more_to_send() const;
  void send_due();
  [[nodiscard]] Clock::time_point next_due() const;
  void issue(Connection& connection, Clock::time_point start);
  void next_batch(Connection& connection);
  int wait(std::vector<epoll_event>& events);
  void serve(Connection& connection, std::uint32_t events);
  bool arrived(Connection& connection, std::size_t size);

  const Options& options_;
  RequestMaker maker_;
  std::vector<Connection> connections_;
  std::deque<Connection*> idle_;  // with a rate only; longest idle first
  std::vector<std::string> prepared_;
  std::size_t next_prepared_ = 0;
  std::uint64_t issued_ = 0;  // requests
  int in_flight_ = 0;         // batches
  int epoll_ = -1;
  Clock::time_point start_;
  Clock::time_point heard_;  // when the server last gave a sign of life
  std::vector<char> buffer_ = std::vector<char>(1u << 18);
  Outcome outcome_;
};

}  // namespace rload
