// How fast counters grow at the moment, for INFO: instantaneous_ops_per_sec and its like.
//
// No thread watches the counters between two calls of INFO. So a rate is what they grew by since an earlier
// call: the latest one that is at least window_min old. The first call after the start answers the mean since
// the start.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>

#include <chrono>
#include <cstdint>

namespace sepal::command {

struct TrafficCount {
  std::uint64_t requests = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

struct TrafficRate {  // in a second
  double requests = 0;
  double bytes_in = 0;
  double bytes_out = 0;
};

// Synchronised.
class RateSampler {
 public:
  static constexpr std::chrono::seconds window_min{1};

  // `count` is what the counters say at `now`. `started_at` is when they were zero.
  TrafficRate sample(SteadyTime now, const TrafficCount& count, SteadyTime started_at);
  // After the counters were set to zero at `now`.
  void reset(SteadyTime now);

 private:
  struct Sample {
    SteadyTime at{};
    TrafficCount count;
  };

  Mutex mutex_;  // Lock order: last.
  Sample older_ SEPAL_GUARDED_BY(mutex_);
  Sample newer_ SEPAL_GUARDED_BY(mutex_);
  bool started_ SEPAL_GUARDED_BY(mutex_) = false;
};

}  // namespace sepal::command
