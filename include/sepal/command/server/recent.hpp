// What happened lately, for the status page: counters and times of requests tell of all since the start, and
// one wrong password of last week is no trouble today.
//
// A background thread takes samples of the counters. What happened since is the difference between the
// counters now and the oldest sample that is not too old.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/command/run/context.hpp>
#include <sepal/metrics/counters.hpp>
#include <sepal/metrics/json.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sepal::command {

// Synchronised.
class Recent {
 public:
  static constexpr std::chrono::seconds sample_interval{10};
  static constexpr std::chrono::seconds counts_age_max{300};
  static constexpr std::chrono::seconds times_age_max{60};
  // Commands that are told, those with the slowest requests first.
  static constexpr std::size_t commands_max = 10;

  // `started_at` is when all counters were zero.
  explicit Recent(SteadyTime started_at);

  // Each sample_interval. Inside the gate.
  void sample(const Services& services, SteadyTime now);
  // Writes the members "recent" and "latency". Inside the gate.
  void write(const Services& services, SteadyTime now, metrics::JsonWriter& to) const;
  // Since the first change that no finished save holds, or since the last save that ended well if that is
  // later; 0 if there is no such change. As the last samples have seen it.
  [[nodiscard]] std::chrono::nanoseconds unsaved_for(SteadyTime now) const;

 private:
  using Buckets = std::array<std::uint64_t, metrics::Histogram::bucket_count>;
  using Times = std::map<const CommandSpec*, Buckets>;
  using Errors = std::map<std::string, std::uint64_t, std::less<>>;
  struct CountsThen {
    SteadyTime at;
    std::vector<std::uint64_t> counts;  // all zero where there are fewer than now
    Errors errors;                      // by their first word; zero where there is none
  };
  struct TimesThen {
    SteadyTime at;
    Times times;
  };

  [[nodiscard]] static Times times_of(const Services& services);
  void write_counts(const Services& services, SteadyTime now, metrics::JsonWriter& to) const;
  void write_times(const Services& services, SteadyTime now, metrics::JsonWriter& to) const;

  mutable Mutex mutex_;                                     // Lock order: the innermost.
  std::deque<CountsThen> counts_ SEPAL_GUARDED_BY(mutex_);  // oldest first
  std::deque<TimesThen> times_ SEPAL_GUARDED_BY(mutex_);
  std::optional<SteadyTime> unsaved_since_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t saves_done_ SEPAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sepal::command
