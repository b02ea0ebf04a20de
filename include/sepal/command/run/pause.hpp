// CLIENT PAUSE: for a while, requests of clients wait.
//
// A pause ends by itself when its time is over. So nothing has to happen at its end: the server looks at the
// time. Workers wake the clients that wait (session/scheduler.hpp).
#pragma once

#include <sepal/base/clock.hpp>

#include <algorithm>
#include <chrono>

namespace sepal::command {

// The longest pause; a longer one is as long. The clock could not count much more.
inline constexpr std::chrono::hours pause_max{24 * 365 * 100};

// Guarded by the gate: changed with the gate closed, read inside it.
class Pause {
 public:
  // Begins a pause of all requests, or of those that may change something. If a pause is running, the later
  // end counts, and a pause of all requests stays one.
  void begin(bool of_all, SteadyTime now, SteadyTime until) {
    of_all_ = of_all || (runs(now) && of_all_);
    until_ = std::max(until_, until);
  }
  void end() { until_ = {}; }

  [[nodiscard]] bool runs(SteadyTime now) const { return now < until_; }
  // What the last pause is, or was.
  [[nodiscard]] bool of_all() const { return of_all_; }
  [[nodiscard]] SteadyTime until() const { return until_; }

 private:
  SteadyTime until_{};
  bool of_all_ = false;
};

}  // namespace sepal::command
