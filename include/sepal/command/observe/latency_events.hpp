// What took at least latency-monitor-threshold: for each kind of event the last samples, at most one for each
// second. LATENCY LATEST, HISTORY, RESET, GRAPH and DOCTOR read them.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sepal::command {

// The samples that are kept for an event, as in the reference.
inline constexpr std::size_t latency_samples_max = 160;

// Synchronised. The names of events are Sepal's own, and few.
class LatencyEvents {
 public:
  struct Sample {
    std::chrono::seconds at;  // since 1970
    std::chrono::milliseconds duration;
  };
  struct Summary {
    std::string event;
    Sample latest;
    std::chrono::milliseconds longest;  // since the last reset; may be older than all samples
    std::vector<Sample> samples;        // the oldest one first
  };

  // The longest sample of a second stands for it.
  void add(std::string_view event, WallTime at, std::chrono::milliseconds duration);
  // All events that have samples, by name.
  [[nodiscard]] std::vector<Summary> all() const;
  // Empty: there are none.
  [[nodiscard]] std::vector<Sample> samples(std::string_view event) const;
  // Forgets these events (in any case), or all if none is named. The number of events that had samples.
  std::size_t reset(std::span<const std::string_view> events);

 private:
  struct Series {
    std::deque<Sample> samples;
    std::chrono::milliseconds longest{0};
  };

  mutable Mutex mutex_;  // Lock order: last.
  std::map<std::string, Series, std::less<>> series_ SEPAL_GUARDED_BY(mutex_);
};

}  // namespace sepal::command
