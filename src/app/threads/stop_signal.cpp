#include "app/threads/stop_signal.hpp"

#include <sepal/base/thread.hpp>
#include <sepal/log/event.hpp>

#include <cerrno>
#include <csignal>
#include <pthread.h>
#include <unistd.h>
#include <utility>

#include "app/system/logging.hpp"

namespace sepal::app {
namespace {

// Wakes the thread `stop-signal` without a signal from outside: for a SHUTDOWN, or at the end of the process.
constexpr int wake_signal = SIGUSR1;

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, wake_signal}) sigaddset(&signals, signal);
  return signals;
}

// Some programs send a signal twice at once: timeout(1) sends it to the process, and then to its group. Both
// are one request.
constexpr std::chrono::milliseconds same_signal_within{250};

}  // namespace

StopSignal::StopSignal(std::chrono::seconds stop_max, ServiceManager& manager)
    : stop_max_(stop_max), manager_(manager) {
  const sigset_t signals = watched_signals();
  // Threads inherit the mask, so only sigtimedwait() takes these signals. While they are blocked they stay
  // pending: a signal that comes before the thread waits is not lost.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A write to a client that has gone gives an error code, not a signal.
  signal(SIGPIPE, SIG_IGN);
  // A file above the limit of the process (ulimit -f) makes a save fail; it must not end the process.
  signal(SIGXFSZ, SIG_IGN);
  thread_ = start_thread("stop-signal", [this] { run(); });
}

StopSignal::~StopSignal() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), wake_signal);
  thread_.join();
}

void StopSignal::end_at_once(const char* reason) const {
  log::error("stopped_at_once",
             changes_are_kept_
                 ? "stopped at once; nothing is lost: the journal has what changed since the last save"
                 : "stopped at once; what changed since the last save is lost",
             {{"reason", reason}});
  // No destructors: threads still run, and may be stuck.
  _exit(1);
}

void StopSignal::at_hang_up(std::function<bool(const std::string&)> reload) {
  {
    const MutexLock lock(mutex_);
    reload_ = std::move(reload);
    if (!reload_ || !std::exchange(hung_up_early_, false)) return;
  }
  // The files were perhaps read before that signal, and have changed since then.
  pthread_kill(thread_.native_handle(), SIGHUP);
}

// A terminal that is closed sends SIGHUP, too. That must not end a server.
void StopSignal::hang_up() {
  manager_.reloading();
  const auto reopened = reopen_log();
  bool reloads = false;
  {
    const MutexLock lock(mutex_);
    // Inside the lock, so that at_hang_up() does not return while the old one runs.
    hung_up_early_ = !reload_;
    reloads = hung_up_early_ || reload_(reopened ? std::string() : reopened.error().detail);
  }
  if (!reopened) {
    log::error("log_not_reopened", "log not reopened", {{"reason", reopened.error().detail}});
  } else if (*reopened == Reopened::yes) {
    log::info("log_reopened", "log reopened", {{"by", "SIGHUP"}});
  } else if (!reloads) {
    log::info("hang_up_ignored", "SIGHUP ignored: the log goes to standard error");
  }
  // If there is a reload, the background thread says so when it has read the files. A manager is not told of
  // one that comes early: the server is not ready yet.
  if (!reloads) manager_.reloaded({});
}

void StopSignal::request(command::StopMode mode) {
  {
    const MutexLock lock(mutex_);
    // The first request decides how the server stops, and wakes the thread once.
    if (requested_ || shut_down_) return;
    mode_ = mode;
    shut_down_ = true;
  }
  pthread_kill(thread_.native_handle(), wake_signal);
}

std::optional<command::StopMode> StopSignal::wait_for(std::chrono::seconds patience) {
  const SteadyTime end = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mutex_);
  while (!requested_)
    if (changed_.wait_until(mutex_, end) == std::cv_status::timeout && !requested_) return std::nullopt;
  return mode_;
}

// The log says it first: another thread begins the stop, and logs its steps.
void StopSignal::note(const std::string& reason) {
  log::info("stop_requested", "stop requested", {{"by", reason}});
  {
    const MutexLock lock(mutex_);
    requested_ = true;
  }
  changed_.notify_all();
}

void StopSignal::asked_by(int signal) {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (signal == first_signal_ && now - first_at_ < same_signal_within) return;
  if (requested_) end_at_once("a second signal");
  note(signal == SIGTERM ? "SIGTERM" : "SIGINT");
  first_signal_ = signal;
  first_at_ = std::chrono::steady_clock::now();  // note() waits for the log, and the log may be slow
}

void StopSignal::run() {
  const sigset_t signals = watched_signals();
  auto deadline = std::chrono::steady_clock::time_point::max();
  while (!ending_) {
    const auto now = std::chrono::steady_clock::now();
    // Each stop is noted on this thread, so the next turn of this loop sees it and sets the deadline.
    if (requested_ && deadline == std::chrono::steady_clock::time_point::max()) deadline = now + stop_max_;
    // Before a stop there is no deadline, so any long wait will do.
    const auto left =
        requested_ ? std::chrono::ceil<std::chrono::seconds>(deadline - now) : std::chrono::hours(1);
    const timespec patience{.tv_sec = left.count() > 0 ? left.count() : 0, .tv_nsec = 0};
    const int received = sigtimedwait(&signals, nullptr, &patience);
    if (ending_) return;
    if (received == SIGTERM || received == SIGINT) {
      asked_by(received);
    } else if (received == SIGHUP) {
      hang_up();
    } else if (received == wake_signal && shut_down_ && !requested_) {
      // Logged on this thread: the worker that ran SHUTDOWN is inside the gate, where no thread may wait for
      // the log.
      note("SHUTDOWN");
    } else if (received < 0 && errno == EAGAIN && requested_) {
      end_at_once("stopping took longer than stop_seconds_max");
    }
  }
}

}  // namespace sepal::app
