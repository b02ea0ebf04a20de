#include "app/system/service_manager.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/whole_number.hpp>
#include <sepal/log/event.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <sys/time.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sepal::app {
namespace {

using std::chrono::microseconds;

constexpr std::chrono::seconds repeat_period{1};
// Asked for anew each second, so a process that hangs is found out after this time.
constexpr microseconds more_time = std::chrono::seconds(30);
// A manager that does not read its socket must not hold up the process for longer.
constexpr timeval send_time_max{.tv_sec = 5, .tv_usec = 0};

// No other thread runs yet that could change the environment.
std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

// WATCHDOG_PID names the process that is watched; the variables may have been inherited from another one.
std::optional<microseconds> watchdog_of_environment() {
  const auto period = parse_whole<std::uint64_t>(environment("WATCHDOG_USEC"));
  const std::string_view process = environment("WATCHDOG_PID");
  if (!period || *period == 0) return std::nullopt;
  if (!process.empty() && parse_whole<std::uint64_t>(process) != static_cast<std::uint64_t>(getpid()))
    return std::nullopt;
  return microseconds(*period);
}

std::string more_time_line() {
  return "EXTEND_TIMEOUT_USEC=" + std::to_string(more_time.count());
}

// The manager compares it with its own clock, to tell this reload from an earlier one.
std::string monotonic_line() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t time = std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  return "MONOTONIC_USEC=" + std::to_string(time);
}

}  // namespace

ServiceManager::ServiceManager() {
  const std::string_view path = environment("NOTIFY_SOCKET");
  if (path.empty()) return;
  if ((path.front() != '/' && path.front() != '@') || path.size() >= sizeof address_.sun_path) {
    log::warn("manager_not_told", "service manager not told",
              {{"reason", "NOTIFY_SOCKET is no path of a UNIX socket"}});
    return;
  }
  address_.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), std::begin(address_.sun_path));
  // An abstract name begins with a zero byte, for which the variable has '@'. It is not ended by a zero byte.
  if (path.front() == '@') address_.sun_path[0] = '\0';
  address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_.is_open()) {
    log::warn("manager_not_told", "service manager not told",
              {{"reason", std::generic_category().message(errno)}});
    return;
  }
  // Without the bound, a send may wait longer. That is no reason to tell the manager nothing.
  static_cast<void>(
      ::setsockopt(socket_.number(), SOL_SOCKET, SO_SNDTIMEO, &send_time_max, sizeof send_time_max));
  watchdog_period_ = watchdog_of_environment();
}

void ServiceManager::loading(std::uint64_t bytes_done, std::uint64_t bytes_total) {
  const MutexLock lock(mutex_);
  if (phase_ != Phase::starting || !due()) return;
  const std::uint64_t percent = bytes_total == 0 ? 0 : 100 * bytes_done / bytes_total;
  send("STATUS=Loading: " + std::to_string(percent) + " % (" + std::to_string(bytes_done) + " of " +
       std::to_string(bytes_total) + " bytes)\n" + more_time_line());
}

void ServiceManager::ready(const std::string& status) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(phase_ == Phase::starting, "a server is ready twice, or after it has begun to stop");
  phase_ = Phase::ready;
  ready_status_ = status;
  send("READY=1\nSTATUS=" + status);
}

void ServiceManager::reloading() {
  const MutexLock lock(mutex_);
  if (phase_ == Phase::ready) send("RELOADING=1\n" + monotonic_line());
}

void ServiceManager::reloaded(const std::string& error) {
  const MutexLock lock(mutex_);
  if (phase_ != Phase::ready) return;
  std::string status = error.empty() ? ready_status_ : "The last reload failed: " + error;
  // A line ends a value. The path of a file may have one in it.
  std::ranges::replace(status, '\n', ' ');
  send("READY=1\nSTATUS=" + status);
}

void ServiceManager::stopping(const std::string& status) {
  const MutexLock lock(mutex_);
  SEPAL_ASSERT(phase_ != Phase::stopping, "a server stops once");
  phase_ = Phase::stopping;
  // The first message of the last save is due at once, also right after one of the load.
  due_at_ = {};
  send("STOPPING=1\nSTATUS=" + status);
}

void ServiceManager::saving_at_stop() {
  const MutexLock lock(mutex_);
  if (due()) send("STATUS=Saving before the end\n" + more_time_line());
}

void ServiceManager::alive() {
  const MutexLock lock(mutex_);
  send("WATCHDOG=1");
}

bool ServiceManager::due() {
  const SteadyTime now = std::chrono::steady_clock::now();
  if (now < due_at_) return false;
  due_at_ = now + repeat_period;
  return true;
}

void ServiceManager::send(std::string_view message) {
  if (!socket_.is_open()) return;
  for (;;) {
    const ssize_t sent = ::sendto(socket_.number(), message.data(), message.size(), MSG_NOSIGNAL,
                                  reinterpret_cast<const sockaddr*>(&address_), address_bytes_);
    if (sent >= 0 || errno != EINTR) {
      // Once: a manager that is gone would fill the log with one line a second.
      if (sent < 0 && !std::exchange(failed_, true))
        log::warn("manager_not_told", "service manager not told",
                  {{"reason", std::generic_category().message(errno)}});
      return;
    }
  }
}

}  // namespace sepal::app
