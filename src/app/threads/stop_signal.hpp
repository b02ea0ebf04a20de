// Decides when to stop: on signals, on SHUTDOWN, and when stopping takes too long. SIGHUP opens the log file
// anew, and has the daemon read its other files anew.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/command/run/services.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "app/system/service_manager.hpp"

namespace sepal::app {

// Synchronised. Construct before any other thread starts: it blocks SIGTERM, SIGINT and SIGHUP for all of
// them, and takes these signals on a thread of its own. The first asks for an orderly stop; a second, or the
// end of `stop_max`, ends the process at once with exit status 1. The same signal again within 250 ms is not
// a second one.
class StopSignal {
 public:
  // `manager` outlives it; it is told of SIGHUP.
  StopSignal(std::chrono::seconds stop_max, ServiceManager& manager);
  ~StopSignal();

  // Asks for a stop, as a signal does: it begins soon, on the thread of signals. A later request does not
  // change the mode.
  void request(command::StopMode mode);

  // Notes whether the journal has all changes that the last save lacks; the log of an immediate end says so.
  // Until the first call, it counts as having them.
  void set_changes_are_kept(bool kept) { changes_are_kept_ = kept; }

  // What to do at SIGHUP besides opening the log anew. It is told why the log was not opened; empty if it
  // was. It returns whether there is anything to do; then it ends by ServiceManager::reloaded(). It must not
  // block, and runs on the thread of signals. Empty: nothing. After at_hang_up() returns, the old one is not
  // running. If SIGHUP has come before there was anything to do, it is done now.
  void at_hang_up(std::function<bool(const std::string&)> reload);

  // Blocks until a stop is asked for, `patience` at most. Nothing: no stop is asked for.
  std::optional<command::StopMode> wait_for(std::chrono::seconds patience);
  [[nodiscard]] bool requested() const { return requested_.load(); }

 private:
  void run();
  void asked_by(int signal);
  void note(const std::string& reason);
  void hang_up();
  [[noreturn]] void end_at_once(const char* reason) const;

  std::chrono::seconds stop_max_;
  ServiceManager& manager_;
  Mutex mutex_;  // Lock order: before that of Background.
  std::function<bool(const std::string&)> reload_ SEPAL_GUARDED_BY(mutex_);
  bool hung_up_early_ SEPAL_GUARDED_BY(mutex_) = false;  // SIGHUP has come, and reload_ was empty
  Condition changed_;
  command::StopMode mode_ SEPAL_GUARDED_BY(mutex_) = command::StopMode::save;
  std::atomic<bool> shut_down_{false};  // request() was called
  std::atomic<bool> requested_{false};  // the log says so
  std::atomic<bool> changes_are_kept_{true};
  std::atomic<bool> ending_{false};
  int first_signal_ = 0;  // the signal that asked for the stop, and when. Confined to thread_.
  SteadyTime first_at_{};
  std::thread thread_;
};

}  // namespace sepal::app
