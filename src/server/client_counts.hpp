// The numbers of clients of all workers: connected now, accepted and refused so far.
#pragma once

#include <sepal/base/assert.hpp>

#include <atomic>
#include <cstdint>

namespace sepal::server {

// See command::HandshakeCounts.
struct HandshakeTallies {
  std::atomic<std::uint64_t> under_way{0};
  std::atomic<std::uint64_t> certificate_refused{0};
  std::atomic<std::uint64_t> refused_by_client{0};
  std::atomic<std::uint64_t> not_tls{0};
  std::atomic<std::uint64_t> closed{0};
  std::atomic<std::uint64_t> too_slow{0};
  std::atomic<std::uint64_t> displaced{0};

  void reset() {
    for (auto* const count :
         {&certificate_refused, &refused_by_client, &not_tls, &closed, &too_slow, &displaced})
      count->store(0);
  }
};

// Synchronised. These are gauges and counts: no thread reads other memory by what they say, so relaxed order
// is enough.
struct ClientCounts {
  std::atomic<std::uint64_t> connected{0};
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> rejected{0};  // no place was left
  std::atomic<std::uint64_t> denied{0};    // by protected mode
  HandshakeTallies handshakes;

  // Takes a place below `clients_max`; false when all are taken.
  [[nodiscard]] bool take_place(std::uint64_t clients_max) {
    std::uint64_t taken = connected.load(std::memory_order_relaxed);
    while (taken < clients_max) {
      if (connected.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  void leave_place() {
    const std::uint64_t connected_before = connected.fetch_sub(1, std::memory_order_relaxed);
    SEPAL_ASSERT(connected_before > 0, "a client gives back a place that it did not take");
  }
};

}  // namespace sepal::server
