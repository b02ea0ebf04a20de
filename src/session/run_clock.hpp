// Measures how long requests take without reading the clock for each one: requests of the same command in a
// row share one measurement.
//
// Reading a clock costs about as much as a pipelined look-up. So the clock is read only when the command
// changes (before the first request of the new command runs) and at the end of a batch.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/clock.hpp>
#include <sepal/command/dispatcher.hpp>

#include <chrono>
#include <cstdint>
#include <string_view>

namespace sepal::session {

// Confined to its worker; lives for a batch. Inside the gate, because it calls Dispatcher::record.
class RunClock {
 public:
  // `now` was just read from the clock.
  RunClock(command::Dispatcher& dispatcher, SteadyTime (*clock)(), SteadyTime now)
      : dispatcher_(dispatcher), clock_(clock), now_(now) {}

  // The last reading.
  [[nodiscard]] SteadyTime now() const { return now_; }

  // Call it before a request of this row runs. Null: the request has no row.
  void before(const command::CommandSpec* spec) {
    if (spec != nullptr && spec == next_) return;
    settle();
    next_ = spec;
  }

  // Call it after the request, or `times` requests together, ran. Null: the request did not reach its
  // handler; the requests after it are measured apart.
  void after(const command::CommandSpec* spec, std::uint64_t times = 1) {
    SEPAL_ASSERT(times > 0, "no request has run");
    if (spec == nullptr || spec != spec_) follow(spec);
    times_ += times;
  }

  // Call it after a part of a long request ran, behind before(). Adds the time that it took to `duration`.
  void after_part(std::chrono::nanoseconds& duration) {
    const SteadyTime now = clock_();
    duration += now - now_;
    restart(now);
  }

  // Call it after the last part. `duration` is that of the parts before it.
  void after_last_part(const command::CommandSpec& spec, std::chrono::nanoseconds duration) {
    after_part(duration);
    dispatcher_.record(spec, 1, duration);
  }

  // Reads the clock, and records the requests that ran since the last reading.
  void settle() {
    const SteadyTime now = clock_();
    if (spec_ != nullptr && times_ > 0) dispatcher_.record(*spec_, times_, now - now_);
    restart(now);
  }

  // Reads the clock, and drops the time since the last reading, which was spent waiting. Call it only after
  // settle(), or requests that ran would be dropped too.
  void skip_wait() {
    SEPAL_ASSERT(times_ == 0, "requests that ran would not be recorded");
    restart(clock_());
  }

 private:
  // Each call of a subcommand is recorded before the next request runs. Else two CONFIG RESETSTAT in a row
  // would both be counted behind the reset of the second.
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
  const command::CommandSpec* next_ = nullptr;  // a request of this row needs no new measurement
  const command::CommandSpec* spec_ = nullptr;  // the row of the requests since the last reading
  std::uint64_t times_ = 0;                     // the number of these requests
};

}  // namespace sepal::session
