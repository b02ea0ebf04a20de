// The server's figures as metrics for Prometheus. docs/operations/watch.md lists them.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/server/filter_state.hpp>
#include <sepal/metrics/exposition.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

namespace sepal::command {

// From when to when the server's certificate is valid, in seconds since 1970.
struct CertificateTimes {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

// What the services do not know.
struct MetricsMoment {
  WallTime now;
  SteadyTime steady_now;
  std::uint64_t gate_waits = 0;  // since the start
  std::uint64_t gate_closings = 0;
  std::chrono::nanoseconds unsaved_for{0};        // Recent::unsaved_for
  std::optional<CertificateTimes> certificate{};  // nothing: the server speaks no TLS
};

// Shared gate. Takes about a millisecond. Waits for no disk.
void append_server_metrics(const Services& services, const MetricsMoment& moment, metrics::Exposition& to);

// Changes of values that clients made and the keyspace does not count, and refused adds, which may tell that
// a filter is full; since the start. Inside the gate.
[[nodiscard]] std::uint64_t value_changes(const Services& services);

// Any thread.
void append_filter_metrics(const FiltersSeen& seen, metrics::Exposition& to);

}  // namespace sepal::command
