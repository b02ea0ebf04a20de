// What sepald tells the service manager that started it: that it is ready, reloads, stops, is alive, and how
// far it is. The protocol is that of sd_notify(3): lines NAME=VALUE in one datagram to the UNIX socket that
// the variable NOTIFY_SOCKET names. Without the variable, nothing is sent.
//
// Why this is no call of libsystemd: the library does the same in one sendto(), and the protocol is part of
// systemd's promise of stable interfaces (its manual page has such a program as an example). The library
// would bring its own dependencies (three compressors and a cipher library) into a process that faces
// networks.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/descriptor.hpp>
#include <sepal/base/mutex.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>

namespace sepal::app {

// Synchronised. Its members may wait for the manager, for some seconds at most, so they are not called inside
// the gate. A message that cannot be sent is logged once.
class ServiceManager {
 public:
  // Reads the environment. Construct it before other threads start.
  ServiceManager();

  // Empty: the manager does not watch this process.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog_period() const { return watchdog_period_; }

  // The load goes on: a status, and more time for the start. At most one message a second.
  void loading(std::uint64_t bytes_done, std::uint64_t bytes_total);
  // The start has ended. `status` says what is served.
  void ready(const std::string& status);
  // Around a reload. They say nothing before ready() and after stopping(). `error` says what was not read; if
  // it is empty, the status is that of ready() again.
  void reloading();
  void reloaded(const std::string& error);
  void stopping(const std::string& status);
  // The last save goes on: more time for the stop. At most one message a second.
  void saving_at_stop();
  // Feeds the manager's watchdog.
  void alive();

 private:
  enum class Phase : std::uint8_t { starting, ready, stopping };

  // Whether a message that repeats is due.
  bool due() SEPAL_REQUIRES(mutex_);
  void send(std::string_view message) SEPAL_REQUIRES(mutex_);

  Descriptor socket_;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::optional<std::chrono::microseconds> watchdog_period_;
  Mutex mutex_;  // Lock order: the innermost.
  Phase phase_ SEPAL_GUARDED_BY(mutex_) = Phase::starting;
  std::string ready_status_ SEPAL_GUARDED_BY(mutex_);
  SteadyTime due_at_ SEPAL_GUARDED_BY(mutex_){};
  bool failed_ SEPAL_GUARDED_BY(mutex_) = false;
};

}  // namespace sepal::app
