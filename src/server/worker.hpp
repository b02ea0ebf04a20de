// A thread with its own io_context, its own clients and its own side of the gate. It tells its scheduler
// which streams are ready, that the journal has made progress and that time has passed; the scheduler decides
// the rest. The worker waits for no sync and for no client. It waits for the gate, for locks that are held
// briefly (the journal's, a shard's), and at the end of a batch for adds that other workers are recording.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/command/run/services.hpp>
#include <sepal/session/scheduler.hpp>
#include <sepal/session/session.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "server/accepted.hpp"
#include "server/client_counts.hpp"
#include "server/handshakes.hpp"
#include "server/readiness.hpp"
#include "server/refusal.hpp"
#include "server/socket_stream.hpp"
#include "server/tls_stream.hpp"
#include "server/watched_stream.hpp"

namespace sepal::server {

// The members are grouped by the threads that may call them.
class Worker {
 public:
  // Descriptors that a worker has open: three of Asio's context, and the epoll set of its connections.
  // Handshakes have more.
  static constexpr std::uint64_t descriptors = 4;

  // `index` is the worker's side of the gate and its place in services.workers. `ask_others` calls
  // give_place() of all other workers.
  Worker(std::size_t index, Gate& gate, command::Services& services, ClientCounts& counts,
         const HandshakeOptions& handshakes, std::function<void()> ask_others);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // --- the thread that made it ---------------------------------------------------------------------------

  // Errors: io.
  Result<void> start();
  // Begins to close all connections, as Scheduler::stop says. Cuts off the connections that are left at
  // `deadline`.
  void stop(SteadyTime deadline);
  void join();
  // Ends the thread at once.
  void halt();

  // --- any thread ----------------------------------------------------------------------------------------

  void adopt(Accepted accepted);
  void kill(std::uint64_t id);
  void push(std::uint64_t id, std::shared_ptr<const std::string> bytes);
  void pause_ended();
  // Closes a client that has not logged in and must, if this worker has one.
  void give_place();
  void answer(std::uint64_t id, std::function<void(resp::Reply&)> append);
  // Tells the worker that the journal is durable up to a further position, has room, or has begun to refuse.
  void journal_progressed();
  // Runs the task between two turns of its connections.
  void take_turn_for(std::function<void()> task);
  // From now on, gives this share of its clients to `heir`, each when it asks: see Scheduler::move_share().
  // The heir outlives this worker's thread.
  void give(Worker& heir, double share);
  void give_none();
  // The number of connections that the worker was given and whose sockets are not closed.
  [[nodiscard]] std::uint64_t load() const { return load_.load(std::memory_order_acquire); }

  // The CPU time of its thread. After start().
  [[nodiscard]] std::chrono::nanoseconds cpu_time() const;
  // See session::Scheduler.
  [[nodiscard]] std::uint64_t long_batches() const { return scheduler_.long_batches(); }

  // --- with the gate closed ------------------------------------------------------------------------------

  void collect(std::vector<command::ClientState*>& clients);

 private:
  // All members below: the worker's own thread.
  void welcome(Accepted accepted);
  void admit(Accepted accepted, Greeted greeted);
  struct Added {
    session::Client& client;
    WatchedStream& stream;
  };
  std::variant<Added, const Refusal*> take_in(Accepted& accepted, Greeted& greeted);
  std::variant<Added, const Refusal*> take_place(Accepted& accepted, Greeted& greeted);
  bool make_place();
  void turn_away(Accepted accepted, const Greeted& greeted, const Refusal& refusal);
  void watch(Added added, std::uint64_t id);
  bool give_away(session::Client& client);
  bool inherit(session::Scheduler& scheduler, session::Client& client);
  void take_inbox();
  void ask_for_unread();
  void take_unread();
  void take_turn();
  void await_next();
  void await_pause_end();
  std::uint64_t journal_progress_to_act_on();
  void bound_buffers();
  void log_closed(std::uint64_t id_of_most, std::size_t count);
  // Call it after the descriptor is closed, or is another worker's. The release pairs with the acquire in
  // load(): when the acceptor sees the lower count, it may rely on the descriptor to be free.
  void socket_closed() {
    const std::uint64_t load_before = load_.fetch_sub(1, std::memory_order_release);
    SEPAL_ASSERT(load_before > 0, "the worker closes more sockets than it was given");
  }
  void begin_stop(SteadyTime deadline);
  bool end_when_empty();
  void cut_off_all();
  void schedule_sweep();
  void sweep();
  void log_strangers(SteadyTime now);
  void log_memory(SteadyTime now);

  std::size_t index_;
  Gate& gate_;
  command::Services& services_;
  ClientCounts& counts_;
  std::function<void()> ask_others_;
  command::Dispatcher dispatcher_;
  std::unique_ptr<char[]> read_memory_;
  // The environment refers to all of these, and each session refers to the environment.
  session::SharedInput input_;
  std::string reply_buffer_;
  session::TogetherWords last_words_;
  session::SimilarWords similar_words_;
  session::Session::Environment environment_;

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  Readiness readiness_;
  boost::asio::steady_timer sweep_timer_;
  boost::asio::steady_timer deadline_timer_;
  boost::asio::steady_timer pause_timer_;
  std::unique_ptr<Handshakes> handshakes_;  // null: there is no TLS port
  UnreadStreams unread_;
  session::Scheduler scheduler_;  // after readiness_ and unread_: its streams refer to them
  std::atomic<std::uint64_t> journal_progress_{0};
  std::atomic<bool> awaits_journal_{false};  // journal_progressed() must post the next progress
  std::atomic<std::uint64_t> load_{0};
  bool awaiting_ = false;  // readiness_.wait is under way
  bool turn_posted_ = false;
  bool unread_posted_ = false;
  Worker* heir_ = nullptr;  // gets clients; null: none moves
  // Clients that other workers have given to this one. A thread that adds or takes one is inside the gate.
  Mutex inbox_mutex_;  // Lock order: inside the gate, and no other lock behind it.
  std::vector<session::Scheduler::Moved> inbox_ SEPAL_GUARDED_BY(inbox_mutex_);
  bool inbox_closed_ SEPAL_GUARDED_BY(inbox_mutex_) = false;  // the worker stops
  std::optional<SteadyTime> pause_awaited_;                   // the time that pause_timer_ waits for
  bool stopping_ = false;
  RefusalLog refusals_;
  // Events that are counted, and of which the log tells now and then.
  struct Told {
    std::uint64_t count = 0;
    SteadyTime due{};  // of the next line
    // The number of new events for a line that is due; 0: no line is due.
    std::uint64_t take(std::uint64_t counted, SteadyTime now);
  };
  Told slow_strangers_;
  Told large_strangers_;
  Told memory_refusals_;
  std::thread thread_;
  clockid_t cpu_clock_{};  // of the thread
};

}  // namespace sepal::server
