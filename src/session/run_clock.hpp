// Measures how long requests take without reading the clock for each one: requests of the same command in a
// row share one measurement.
//
// Reading a clock costs about as much as a pipelined look-up. So the clock is read only when the command
// changes (before the first request of the new command runs) and at the end of a batch.
//
// A measurement that is slow is told with the words of its first request. To keep the words of each request
// would cost too, so the clock keeps where the request's bytes begin, and parses them once more.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/clock.hpp>
#include <sepal/command/run/dispatcher.hpp>
#include <sepal/resp/request_parser.hpp>
#include <sepal/session/input_buffer.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>

namespace sepal::session {

// Whether one request of this row may take as long as hundreds of other requests: an INFO takes a thousand
// times as long as a PING. The commands of filters are told by their items, which the session counts.
inline bool may_be_slow(const command::CommandSpec* spec) {
  return spec != nullptr && !spec->flags.has(command::Flag::fast) && !spec->flags.has(command::Flag::module);
}

// Confined to its worker; lives for a batch. Inside the gate, because it calls Dispatcher::record.
class RunClock {
 public:
  // `now` was just read from the clock; `wall_now` is what is told of slow requests. `input` has the
  // requests.
  RunClock(command::Dispatcher& dispatcher, const command::ClientState& client, const InputBuffer& input,
           SteadyTime (*clock)(), SteadyTime now, WallTime wall_now)
      : dispatcher_(dispatcher),
        client_(client),
        input_(input),
        clock_(clock),
        now_(now),
        wall_now_(wall_now) {}

  // The last reading.
  [[nodiscard]] SteadyTime now() const { return now_; }

  // Call it before a request of this row runs. Null: the request has no row.
  void before(const command::CommandSpec* spec) {
    // The same command again: its requests share the measurement that runs.
    if (spec != nullptr && spec == next_) return;
    record_runs();
    next_ = spec;
  }

  // Call it after the request, or `times` requests together, ran. Null: the request did not reach its
  // handler; the requests after it are measured apart. `at`: where the bytes of the (first) request begin in
  // the input. They stay there until the batch ends.
  void after(const command::CommandSpec* spec, const char* at, std::uint64_t times = 1) {
    SEPAL_ASSERT(times > 0, "no request has run");
    if (spec == nullptr || spec != spec_) follow(spec, at);
    times_ += times;
  }

  // Call it after a part of a long request ran, behind before(). Adds the time that it took to `duration`.
  void after_part(std::chrono::nanoseconds& duration) {
    const SteadyTime now = clock_();
    duration += now - now_;
    restart(now);
  }

  // Call it after the last part. `words` are those of the request: to parse a long one again takes
  // milliseconds. `duration` is that of the parts before it.
  void after_last_part(const command::CommandSpec& spec, std::span<const std::string_view> words,
                       std::chrono::nanoseconds duration) {
    after_part(duration);
    dispatcher_.count_calls(spec, 1, duration);
    if (dispatcher_.is_slow(duration)) note_slow(spec, words, 1, duration);
  }

  // Reads the clock, and records the requests that ran since the last reading.
  void record_runs() {
    const SteadyTime now = clock_();
    if (spec_ != nullptr && times_ > 0) record(*spec_, first_at_, times_, now - now_);
    restart(now);
  }

  // Reads the clock, and drops the time since the last reading, which was spent waiting. Call it only after
  // record_runs(), or requests that ran would be dropped too.
  void skip_wait() {
    SEPAL_ASSERT(times_ == 0, "requests that ran would not be recorded");
    restart(clock_());
  }

 private:
  // Each call of a command that may be slow is recorded before the next request runs. Else two CONFIG
  // RESETSTAT in a row would both be counted behind the reset of the second.
  void follow(const command::CommandSpec* spec, const char* at) {
    if (spec_ != nullptr) record_runs();
    spec_ = spec;
    first_at_ = at;
    times_ = 0;
    next_ = may_be_slow(spec) ? nullptr : spec;
  }

  void record(const command::CommandSpec& spec, const char* at, std::uint64_t times,
              std::chrono::nanoseconds duration) {
    dispatcher_.count_calls(spec, times, duration);
    if (!dispatcher_.is_slow(duration)) return;
    // The bytes were a request when they were parsed. If a CONFIG SET has lowered a limit of the parser since
    // then, they may be none now: then only the name of the command is told.
    const std::string_view bytes(at, static_cast<std::size_t>(input_.unparsed().data() - at));
    resp::RequestParser parser(dispatcher_.parser_limits());
    const bool is_whole = parser.next(bytes, true) == resp::Progress::complete;
    note_slow(spec, is_whole ? parser.words() : std::span(&spec.name, 1), times, duration);
  }

  void note_slow(const command::CommandSpec& spec, std::span<const std::string_view> words,
                 std::uint64_t times, std::chrono::nanoseconds duration) {
    dispatcher_.note_slow({.client = client_,
                           .spec = spec,
                           .words = words,
                           .times = times,
                           .duration = duration,
                           .now = wall_now_});
  }

  void restart(SteadyTime now) {
    now_ = now;
    next_ = nullptr;
    spec_ = nullptr;
    times_ = 0;
  }

  command::Dispatcher& dispatcher_;
  const command::ClientState& client_;
  const InputBuffer& input_;
  SteadyTime (*clock_)();
  SteadyTime now_;
  WallTime wall_now_;
  const command::CommandSpec* next_ = nullptr;  // a request of this row needs no new measurement
  const command::CommandSpec* spec_ = nullptr;  // the row of the requests since the last reading
  std::uint64_t times_ = 0;                     // the number of these requests
  const char* first_at_ = nullptr;              // where the first of them begins
};

}  // namespace sepal::session
