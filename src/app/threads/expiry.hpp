// Removes keys that are past their deadline, on a thread of its own. It removes a few at a time inside
// the gate, and then pauses for longer. So a million keys of one deadline are gone some seconds later, and no
// request waits for more than a few removals. Meanwhile requests do not find these
// keys.
//
// It also drops uploads for which no piece came in time. The thread sleeps until the earliest deadline, and
// does nothing while there is none.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/writers/uploads.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace sepal::app {

// The comments of the members name the threads that may call them.
class Expiry {
 public:
  Expiry() = default;
  ~Expiry();  // after stop()
  Expiry(const Expiry&) = delete;
  Expiry& operator=(const Expiry&) = delete;

  // All parts outlive stop().
  struct Parts {
    Gate& gate;
    std::size_t side;  // of the gate: this thread's own
    keyspace::Keyspace& keyspace;
    keyspace::WorkerLog& log;
    writers::Uploads& uploads;
  };
  // Called once, with the gate closed. The thread tells the log what it removes.
  void begin(const Parts& parts);
  // Called by the thread that constructed this. Nothing is removed any more when it returns.
  void stop();
  // How long it has removed keys, in all. Any thread.
  [[nodiscard]] std::chrono::microseconds worked() const {
    return std::chrono::microseconds(worked_.load(std::memory_order_relaxed));
  }

  // Any thread: a key has this deadline now.
  void due_at(keyspace::Deadline deadline);

 private:
  // How long the thread has to wait before there is something to do.
  struct Pause {
    std::chrono::microseconds at_least{0};
    keyspace::Deadline until = keyspace::no_deadline;  // none: until due_at()
    bool limbo_waits = false;                          // what was taken out is not freed yet
  };
  void run(const Parts& parts);
  Pause remove_some(const Parts& parts, Limbo& limbo);
  // False: the thread has to end.
  bool wait(const Pause& pause);

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  keyspace::Deadline next_ SEPAL_GUARDED_BY(mutex_) = keyspace::no_deadline;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;
  std::atomic<std::int64_t> worked_{0};  // microseconds
  std::thread thread_;
};

}  // namespace sepal::app
