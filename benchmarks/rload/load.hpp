// The load: all connections, served by one thread.
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
  bool complete = true;                     // the server closed no connection, and answered in time
  std::vector<std::uint32_t> latencies_us;  // latencies of the batches, sorted
};

struct Connection {
  int descriptor = -1;
  std::string out;  // the batch being sent
  std::size_t sent = 0;
  std::uint64_t replies_awaited = 0;
  Clock::time_point start;  // the batch's latency counts from here
  ReplyScanner scanner;

  void send_more();
};

// Without a rate, each connection sends its next batch when the last one is answered. With a rate, batches
// are due at even intervals, and each goes to the connection that has been idle longest. The latency of a
// batch counts from its due time, so that a stall of the server also counts for batches that could not be
// sent yet.
class Load {
 public:
  // Connects, and prepares batches as far as memory allows.
  explicit Load(const Options& options);

  // May be called once. Ends when all requests of the options are answered; after SIGINT, when the batches
  // under way are answered.
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
  std::deque<Connection*> idle_;  // used only with a rate; longest idle first
  std::vector<std::string> prepared_;
  std::size_t next_prepared_ = 0;
  std::uint64_t issued_ = 0;  // number of requests
  int in_flight_ = 0;         // number of batches
  int epoll_ = -1;
  Clock::time_point start_;
  Clock::time_point heard_;  // time of the last bytes from the server
  std::vector<char> buffer_ = std::vector<char>(1u << 18);
  Outcome outcome_;
};

}  // namespace rload
