#include "app/threads/watchdog.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/thread.hpp>

#include <utility>

namespace sepal::app {

void Watchdog::begin(AskWorkers ask) {
  SEPAL_ASSERT(ask && !thread_.joinable(), "the watchdog begins once, and asks the workers");
  ask_ = std::move(ask);
  if (manager_.watchdog_period()) thread_ = start_thread("watchdog", [this] { run(); });
}

void Watchdog::end() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  // The thread may wait for workers or for the manager. ending_ ends the first wait, and the second has a
  // bound.
  if (thread_.joinable()) thread_.join();
}

// The manual of the manager recommends half of its period.
void Watchdog::run() {
  const auto half = *manager_.watchdog_period() / 2;
  do {
    if (!workers_answer()) return;
    manager_.alive();
  } while (wait_for(half));
}

bool Watchdog::wait_for(std::chrono::microseconds period) {
  const auto end = std::chrono::steady_clock::now() + period;
  const MutexLock lock(mutex_);
  while (!ending_) {
    if (changed_.wait_until(mutex_, end) == std::cv_status::timeout) return !ending_;
  }
  return false;
}

// There is no bound on the wait: after a whole period without WATCHDOG=1 the manager ends the process.
bool Watchdog::workers_answer() {
  {
    const MutexLock lock(mutex_);
    // Before the question: the answer may come at once.
    answered_ = false;
  }
  ask_([this] {
    const MutexLock lock(mutex_);
    answered_ = true;
    changed_.notify_all();
  });
  const MutexLock lock(mutex_);
  while (!ending_ && !answered_) changed_.wait(mutex_);
  return !ending_;
}

}  // namespace sepal::app
