// The clients that have said MONITOR, and get a line for each command that any worker runs.
//
// Without such a client, a request costs one look at a number. With one, the dispatcher of each worker
// collects the lines of a batch, and hands them over to the workers of these clients. Lines on their way are
// bounded: if a worker cannot follow, its monitors are closed. What a monitor does not read counts as waiting
// replies.
#pragma once

#include <sepal/base/mutex.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sepal::command {

// Lines that are handed over at a time, at least; the last one may exceed it.
inline constexpr std::size_t monitor_piece_bytes = 256 * 1024;
// Lines on their way to the workers of monitors: a quarter of maxmemory_clients, between these bounds. No
// client holds them, so they are not among what maxmemory_clients bounds: another client would be closed for
// them.
inline constexpr std::uint64_t monitor_bytes_max = std::uint64_t{64} << 20;
inline constexpr std::uint64_t monitor_bytes_min = 16 * monitor_piece_bytes;
static_assert(monitor_bytes_min <= monitor_bytes_max);
// `clients_memory_max`: that setting, in bytes; 0: there is no bound on the memory of clients.
[[nodiscard]] constexpr std::uint64_t monitor_bytes_of(std::uint64_t clients_memory_max) {
  constexpr std::uint64_t parts = 4;
  if (clients_memory_max == 0) return monitor_bytes_max;
  return std::clamp(clients_memory_max / parts, monitor_bytes_min, monitor_bytes_max);
}

// Synchronised.
class Monitors {
 public:
  struct Monitor {
    std::uint64_t client_id = 0;
    std::size_t worker = 0;  // the index of its worker
  };

  // Relaxed: a command that runs at the same time as a MONITOR may be shown or not.
  [[nodiscard]] bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  [[nodiscard]] std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::vector<Monitor> all() const;
  void add(Monitor monitor);
  // Whether it was one.
  bool remove(std::uint64_t client_id);

  // Lines that count as on their way while the result lives, which must not be longer than this lives. Null:
  // they would be more than `bytes_max`.
  [[nodiscard]] std::shared_ptr<const std::string> on_their_way(std::string lines, std::uint64_t bytes_max);
  // The memory of all of them.
  [[nodiscard]] std::uint64_t bytes_on_their_way() const { return bytes_on_their_way_.load(); }

 private:
  mutable Mutex mutex_;  // Lock order: last.
  std::vector<Monitor> monitors_ SEPAL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> count_{0};  // of monitors_
  std::atomic<std::uint64_t> bytes_on_their_way_{0};
};

// That a client is a monitor.
class Monitoring {
 public:
  Monitoring(Monitors& monitors, Monitors::Monitor monitor) : monitors_(monitors), id_(monitor.client_id) {
    monitors_.add(monitor);
  }
  ~Monitoring() { monitors_.remove(id_); }
  Monitoring(const Monitoring&) = delete;
  Monitoring& operator=(const Monitoring&) = delete;

 private:
  Monitors& monitors_;
  std::uint64_t id_;
};

}  // namespace sepal::command
