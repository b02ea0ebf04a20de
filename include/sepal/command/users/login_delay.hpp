// Makes it slow to guess passwords: failed logins of all clients together are answered at a bounded rate. A
// login that succeeds is answered at once, also while others wait.
#pragma once

#include <sepal/base/clock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace sepal::command {

// One failed login is answered in each interval; a few that come together are answered at once.
inline constexpr std::chrono::milliseconds failed_login_interval{10};
inline constexpr int failed_logins_at_once = 20;
// The longest time that the answer of a failed login waits.
inline constexpr std::chrono::seconds failed_login_wait_max{10};

// Any thread. A generic cell rate algorithm (ITU-T I.371): one time stands for the whole queue.
class LoginDelay {
 public:
  // A login has failed. Returns when its answer is due: `now`, or later.
  SteadyTime note(SteadyTime now) {
    constexpr SteadyTime::duration at_once = failed_logins_at_once * failed_login_interval;
    SteadyTime next = next_.load(std::memory_order_relaxed);
    SteadyTime taken;
    do {
      taken = std::min(std::max(next, now), now + failed_login_wait_max + at_once);
    } while (!next_.compare_exchange_weak(next, taken + failed_login_interval, std::memory_order_relaxed));
    return std::max(now, taken + failed_login_interval - at_once);
  }

 private:
  std::atomic<SteadyTime> next_{SteadyTime{}};
};

}  // namespace sepal::command
