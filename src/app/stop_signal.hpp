// Why and when to stop: signals, SHUTDOWN, and a limit on how long stopping may take.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/command/services.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace sepal::app {

// Synchronised. Construct before any other thread starts: it blocks SIGTERM and SIGINT for all of them, and
// takes these signals on a thread of its own. The first asks for an orderly stop; a second, or the end of
// `stop_max`, ends the process at once with exit status 1.
class StopSignal {
 public:
  explicit StopSignal(std::chrono::seconds stop_max);
  ~StopSignal();

  // As a signal would; a later one does not change the mode.
  void request(command::StopMode mode);

  // Blocks until a stop is asked for.
  command::StopMode wait();
  [[nodiscard]] bool requested() const { return requested_.load(); }

 private:
  void run();
  void note(const std::string& reason);

  std::chrono::seconds stop_max_;
  Mutex mutex_;  // Nothing is locked inside.
  Condition changed_;
  command::StopMode mode_ SEPAL_GUARDED_BY(mutex_) = command::StopMode::save;
  std::atomic<bool> requested_{false};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace sepal::app
