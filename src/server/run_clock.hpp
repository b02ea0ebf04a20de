// Times requests without a look at the clock for each: requests of one command in a row share one
// measurement.
//
// Reading a clock costs about as much as a pipelined look-up. So the clock is read when the command changes,
// before the request is run, and at the end of a batch.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/dispatcher.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace sepal::server {

// Confined to its worker; lives for a batch. Its calls need the gate, as Dispatcher::record does.
class RunClock {
 public:
  // The clock was just read: `now`.
  RunClock(command::Dispatcher& dispatcher, SteadyTime (*clock)(), SteadyTime now)
      : dispatcher_(dispatcher), clock_(clock), now_(now) {}

  // The last reading.
  [[nodiscard]] SteadyTime now() const { return now_; }

  // Before a request of this row is run; null is no row.
  void before(const command::CommandSpec* spec) {
    if (spec != nullptr && spec == next_) return;
    settle();
    next_ = spec;
  }

  // After it was run, or `times` of them together. Null when it did not come to its handler: what follows is
  // measured apart.
  void after(const command::CommandSpec* spec, std::uint64_t times = 1) {
    if (spec == nullptr || spec != spec_) follow(spec);
    times_ += times;
  }

  // Reads the clock, and records what ran since the last reading.
  void settle() {
    const SteadyTime now = clock_();
    if (spec_ != nullptr && times_ > 0) dispatcher_.record(*spec_, times_, now - now_);
    restart(now);
  }

  // Forgets the time since the last reading: it was spent waiting. Only after settle().
  void skip_wait() { restart(clock_()); }

 private:
  // Each call of a subcommand is measured apart: CONFIG RESETSTAT is not to be counted behind its own reset.
  void follow(const command::CommandSpec* spec) {
    if (spec_ != nullptr) settle();
    spec_ = spec;
    times_ = 0;
    next_ = spec == nullptr || spec->name.find('|') != std::string_view::npos ? nullptr : spec;
  }

  void restart(SteadyTime now) {
    now_ = now;
    next_ = nullptr;
    spec_ = nullptr;
    times_ = 0;
  }

  command::Dispatcher& dispatcher_;
  SteadyTime (*clock_)();
  SteadyTime now_;
  const command::CommandSpec* next_ = nullptr;  // of the request that is about to run, or has just been run
  const command::CommandSpec* spec_ = nullptr;  // of those that ran since the last reading
  std::uint64_t times_ = 0;                     // how many they were
};

}  // namespace sepal::server
