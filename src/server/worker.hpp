// A thread with its own io_context, its own connections and its own side of the gate.
//
// In a turn it serves every connection that is ready, then gives each connection that has more to run (a
// pipeline longer than a batch) one more batch, and looks again. Nothing it does blocks but the gate.
//
// Those that are ready are served in rounds: some receive, what they ask first is run together or the memory
// that it will wait for is asked for, they run, and their replies leave.
//
//     receive receive receive .. | look ahead | run run run .. | send send send ..
//
// So a request finds its memory there and the caches full of what the one before has used, where a walk
// through the kernel for each of them would come between.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/dispatcher.hpp>
#include <sepal/command/services.hpp>
#include <sepal/server/session.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client_counts.hpp"
#include "connection.hpp"
#include "descriptor.hpp"
#include "readiness.hpp"
#include "spare_buffers.hpp"

namespace sepal::server {

// A connection on its way from the acceptor to a worker.
struct Accepted {
  Descriptor descriptor;
  Connection::Kind kind;
  std::uint64_t id;
  std::string address;
  std::string local_address;
};

// Each member says who may call it.
class Worker {
 public:
  // `index` is its side of the gate and its place in services.workers.
  Worker(std::size_t index, Gate& gate, command::Services& services, ClientCounts& counts);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // --- the thread that made it ---------------------------------------------------------------------------

  // Errors: io.
  Result<void> start();
  // Begins to close all connections as Connection::stop says; those that are left at `deadline` are cut off.
  void stop(SteadyTime deadline);
  void join();

  // --- any thread
  // --------------------------------------------------------------------------------------------

  void adopt(Accepted accepted);
  void kill(std::uint64_t id);
  void answer(std::uint64_t id, std::function<void(resp::Reply&)> append);
  // The journal is durable up to a further position, or has room, or has begun to refuse.
  void journal_progressed();
  // Connections that were given to it and are not closed.
  [[nodiscard]] std::uint64_t load() const { return load_.load(std::memory_order_relaxed); }

  // --- with the gate closed
  // ----------------------------------------------------------------------------------

  void collect(std::vector<command::ClientState*>& clients);

 private:
  using Connections = std::unordered_map<std::uint64_t, std::unique_ptr<Connection>>;

  // The rest: its own thread.
  void welcome(Accepted accepted);
  Connection* take_in(Accepted& accepted);
  void refuse(const Accepted& accepted);
  void take_turn();
  void run_round();
  void look_ahead();
  void run(Connection& connection);
  void send_due();
  void send_kept();
  void await_next();
  void follow(Connection& connection, Connection::Then then);
  void hold(Connection& connection);
  void look_at_journal();
  void queue_put_off_when_progressed();
  void release_durable();
  void remove(Connection& connection);
  Connections::node_type unlist(Connection& connection);
  void begin_stop(SteadyTime deadline);
  void end_when_empty();
  void cut_off_all();
  void schedule_sweep();
  void sweep();

  std::size_t index_;
  Gate& gate_;
  command::Services& services_;
  ClientCounts& counts_;
  command::Dispatcher dispatcher_;
  std::unique_ptr<char[]> read_memory_;
  SharedInput input_;
  std::string reply_buffer_;
  SpareBuffers spares_;
  TogetherWords last_words_;
  SimilarWords similar_words_;
  Session::Environment environment_;

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  Readiness readiness_;
  boost::asio::steady_timer sweep_timer_;
  boost::asio::steady_timer deadline_timer_;
  Connections connections_;           // Changed inside its own side of the gate: collect() reads it.
  Connections lingering_;             // Those that are no clients any more.
  std::vector<Connection*> round_;    // those that have received and not run,
  std::size_t round_bytes_ = 0;       // and how much
  std::vector<std::uint64_t> queue_;  // ids; those that run again
  std::vector<std::uint64_t> turn_;   // the queue of the running turn
  // Ids; those whose replies were kept, and, if it was by run(), when the first of them were ready to be
  // sent.
  std::vector<std::uint64_t> kept_;
  SteadyTime kept_since_{};
  bool due_ = false;  // some of them are of a short batch
  // Those that wait for the journal: for it to be durable up to a position, in the order of the positions;
  // and for it to make progress.
  struct Held {
    std::uint64_t position;
    std::uint64_t id;
  };
  std::deque<Held> held_;
  std::vector<std::uint64_t> later_;  // ids
  std::uint64_t progress_seen_ = 0;   // of journal_progress_, before any of later_ was run
  std::atomic<std::uint64_t> journal_progress_{0};
  std::atomic<bool> awaits_journal_{false};  // the next progress is to be posted
  std::atomic<std::uint64_t> load_{0};
  bool awaiting_ = false;  // readiness_.wait is under way
  bool turn_posted_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sepal::server
