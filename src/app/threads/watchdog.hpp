// Feeds the service manager's watchdog, as long as all workers take their turns.
//
// The thread `watchdog` gives each worker a small task, and sends WATCHDOG=1 once all of them have run it. A
// worker that is stuck (in an endless loop, or before a lock or a gate that never opens) runs no task, so the
// manager hears nothing more, and restarts the process.
#pragma once

#include <sepal/base/mutex.hpp>

#include <chrono>
#include <functional>
#include <thread>

#include "app/system/service_manager.hpp"

namespace sepal::app {

// Confined to the main thread. It outlives the workers: a task that a worker has not run yet refers to it.
class Watchdog {
 public:
  // Has each worker run a task, and calls `done`, on any thread, when all have.
  using AskWorkers = std::function<void(std::function<void()> done)>;

  explicit Watchdog(ServiceManager& manager) : manager_(manager) {}
  ~Watchdog() { end(); }

  // Starts the thread, if the manager watches this process.
  void begin(AskWorkers ask);
  // Ends the thread. Called before the workers stop; may be called again.
  void end();

 private:
  void run();
  // False: the thread has to end.
  bool wait_for(std::chrono::microseconds period);
  bool workers_answer();

  ServiceManager& manager_;
  AskWorkers ask_;
  Mutex mutex_;  // Lock order: the innermost.
  Condition changed_;
  bool ending_ SEPAL_GUARDED_BY(mutex_) = false;
  bool answered_ SEPAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sepal::app
