// The server's figures as metrics for Prometheus. docs/operations/watch.md lists them.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/bloom/commands/filter_facts.hpp>
#include <sepal/bloom/filter/measure.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/metrics/exposition.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace sepal::command {

// What the services do not know.
struct MetricsMoment {
  WallTime now;
  SteadyTime steady_now;
  std::uint64_t gate_waits = 0;  // since the start
  std::uint64_t gate_closings = 0;
};

// A filter as it was measured some seconds ago. A value: nothing in it depends on the filter any more.
struct SeenFilter {
  std::uint32_t database = 0;
  std::string key;           // valid UTF-8 (metrics::printable)
  std::string key_bytes;     // as it is
  bloom::FilterFacts facts;  // without layers
  std::uint64_t layer_count = 0;
  bloom::FilterMeasure measured;
};

// Shared gate. Takes about a millisecond. Waits for no disk.
void append_server_metrics(const Services& services, const MetricsMoment& moment, metrics::Exposition& to);

// Any thread.
void append_filter_metrics(std::span<const SeenFilter> filters, metrics::Exposition& to);

}  // namespace sepal::command
