// Removes keys that are past their deadline, on a thread of its own: a few at a time with the gate closed,
// and then pauses for longer than the gate was closed. So a million keys of one second are gone some seconds
// later, in which nobody waits for more than a few of them. Meanwhile they are answered as if they were gone.
//
// It drops uploads that nobody goes on with as well. The thread sleeps until the earliest deadline of all,
// and does nothing at all as long as there is none.
#pragma once

#include <sepal/base/gate.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/keyspace/deadline.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/keyspace/mutation_log.hpp>
#include <sepal/keyspace/uploads.hpp>

#include <chrono>
#include <thread>

namespace sepal::app {

// Each member says who may call it.
class Expiry {
 public:
  Expiry() = default;
  ~Expiry();  // after stop()
  Expiry(const Expiry&) = delete;
  Expiry& operator=(const Expiry&) = delete;

  // All of them outlive stop().
  struct Parts {
    Gate& gate;
    keyspace::Keyspace& keyspace;
    keyspace::WorkerLog& log;
    keyspace::Uploads& uploads;
  };
  // The gate closed, once. What is removed is told to the log.
  void begin(const Parts& parts);
  // The thread that made it. Nothing is removed any more when this returns.
  void stop();

  // The gate closed. A key has this deadline now.
  void due_at(keyspace::Deadline deadline);

 private:
  // What may have to pass before there is something to do.
  struct Pause {
    std::chrono::microseconds at_least{0};
    keyspace::Deadline until = keyspace::no_deadline;  // none: until due_at()
  };
  void run(const Parts& parts);
  static Pause remove_some(const Parts& parts);
  // False at the end.
  bool wait(const Pause& pause);

  Mutex mutex_;  // Lock order: after the gate; nothing is locked inside.
  Condition changed_;
  keyspace::Deadline next_ SEPAL_GUARDED_BY(mutex_) = keyspace::no_deadline;
  bool stopping_ SEPAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sepal::app
