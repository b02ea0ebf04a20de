// The server's figures as metrics for Prometheus. docs/operations/watch.md lists them.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/command/server/filter_state.hpp>
#include <sepal/metrics/exposition.hpp>

#include <cstdint>

namespace sepal::command {

// What the services do not know.
struct MetricsMoment {
  WallTime now;
  SteadyTime steady_now;
  std::uint64_t gate_waits = 0;  // since the start
  std::uint64_t gate_closings = 0;
};

// Shared gate. Takes about a millisecond. Waits for no disk.
void append_server_metrics(const Services& services, const MetricsMoment& moment, metrics::Exposition& to);

// Changes of values that are no changes of structure, since the start. Inside the gate.
[[nodiscard]] std::uint64_t value_changes(const Services& services);

// Any thread.
void append_filter_metrics(const FiltersSeen& seen, metrics::Exposition& to);

}  // namespace sepal::command
