#include "stop_signal.hpp"

#include <sepal/base/thread.hpp>

#include <spdlog/spdlog.h>

#include <cerrno>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace sepal::app {
namespace {

// Wakes the signal thread for reasons that are not signals from outside: a SHUTDOWN, the end of the process.
constexpr int wake_signal = SIGUSR1;

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, wake_signal}) sigaddset(&signals, signal);
  return signals;
}

[[noreturn]] void end_at_once(const char* reason) {
  spdlog::error("stopped at once: {}; changes since the last save are lost", reason);
  spdlog::default_logger()->flush();
  _exit(1);
}

}  // namespace

StopSignal::StopSignal(std::chrono::seconds stop_max) : stop_max_(stop_max) {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A client that goes away while it is written to is an error code, not a signal.
  signal(SIGPIPE, SIG_IGN);
  // A file over the limit of the process (ulimit -f) is a save that fails, not the end.
  signal(SIGXFSZ, SIG_IGN);
  thread_ = std::thread([this] { run(); });
}

StopSignal::~StopSignal() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), wake_signal);
  thread_.join();
}

void StopSignal::request(command::StopMode mode) {
  {
    const MutexLock lock(mutex_);
    if (requested_) return;
    mode_ = mode;
    requested_ = true;
  }
  changed_.notify_all();
  pthread_kill(thread_.native_handle(), wake_signal);
}

command::StopMode StopSignal::wait() {
  const MutexLock lock(mutex_);
  while (!requested_) changed_.wait(mutex_);
  return mode_;
}

void StopSignal::note(const std::string& reason) {
  spdlog::info("stop requested: by={}", reason);
  {
    const MutexLock lock(mutex_);
    requested_ = true;
  }
  changed_.notify_all();
}

void StopSignal::run() {
  name_this_thread("stop-signal");
  const sigset_t signals = watched_signals();
  auto deadline = std::chrono::steady_clock::time_point::max();
  while (!ending_) {
    const auto now = std::chrono::steady_clock::now();
    if (requested_ && deadline == std::chrono::steady_clock::time_point::max()) deadline = now + stop_max_;
    // Before a stop there is nothing to time: an hour is as good as for ever.
    const auto left =
        requested_ ? std::chrono::ceil<std::chrono::seconds>(deadline - now) : std::chrono::hours(1);
    const timespec patience{.tv_sec = left.count() > 0 ? left.count() : 0, .tv_nsec = 0};
    const int received = sigtimedwait(&signals, nullptr, &patience);
    if (ending_) return;
    if (received == SIGTERM || received == SIGINT) {
      if (requested_) end_at_once("a second signal");
      note(received == SIGTERM ? "SIGTERM" : "SIGINT");
    } else if (received == wake_signal && requested_) {
      // Told here: who asks is inside the gate, where nobody waits for a log to be written.
      spdlog::info("stop requested: by=SHUTDOWN");
    } else if (received < 0 && errno == EAGAIN && requested_) {
      end_at_once("stopping took longer than stop_seconds_max");
    }
  }
}

}  // namespace sepal::app
