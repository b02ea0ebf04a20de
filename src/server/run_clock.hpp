// Times requests without a look at the clock for each: requests of one command in a row share one
// measurement.
//
// Reading a clock costs about as much as a pipelined look-up. So the clock is read when the name of the
// command changes, before the request is run, and at the end of a batch.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/command/dispatcher.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
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

  // Before a request is run. `name` is as the client spelled it.
  void before(std::string_view name) {
    if (name.size() == name_bytes_ && std::memcmp(name.data(), name_.data(), name_bytes_) == 0) return;
    settle();
    name_bytes_ = name.size() <= name_.size() ? name.size() : 0;
    std::memcpy(name_.data(), name.data(), name_bytes_);
  }

  // After it was run, or `times` of them together; `spec` may be null.
  void after(const command::CommandSpec* spec, std::uint64_t times = 1) {
    if (spec != spec_) follow(spec);
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
  // Requests of one name need not be of one row: one may be refused before it comes to its handler, and a
  // subcommand shares the name of its container, so the next one is measured apart, whatever it is.
  void follow(const command::CommandSpec* spec) {
    if (spec_ != nullptr) settle();
    spec_ = spec;
    times_ = 0;
    if (spec == nullptr || spec->name.find('|') != std::string_view::npos) name_bytes_ = 0;
  }

  void restart(SteadyTime now) {
    now_ = now;
    spec_ = nullptr;
    times_ = 0;
    name_bytes_ = 0;
  }

  command::Dispatcher& dispatcher_;
  SteadyTime (*clock_)();
  SteadyTime now_;
  const command::CommandSpec* spec_ = nullptr;
  std::uint64_t times_ = 0;
  std::array<char, 32> name_{};
  std::size_t name_bytes_ = 0;
};

}  // namespace sepal::server
