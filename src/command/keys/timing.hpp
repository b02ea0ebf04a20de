// Turns the times in requests into times of the wall clock.
#pragma once

#include <sepal/keyspace/deadline.hpp>

#include <cstdint>
#include <optional>

namespace sepal::command {

inline constexpr std::int64_t milliseconds_a_second = 1000;

// How a command gives a time.
struct Timing {
  bool seconds = false;   // else milliseconds
  bool absolute = false;  // since 1970, else from now on
};

// In milliseconds since 1970; negative before 1970. Nothing if 64 bits cannot hold it.
[[nodiscard]] inline std::optional<std::int64_t> time_of(std::int64_t number, Timing timing, WallTime now) {
  std::int64_t time = number;
  // A client may name any number of 64 bits. A time that wraps could lie in the past, and would remove the
  // key.
  if (timing.seconds && __builtin_mul_overflow(number, milliseconds_a_second, &time)) return std::nullopt;
  if (!timing.absolute && __builtin_add_overflow(time, keyspace::deadline_at(now), &time))
    return std::nullopt;
  return time;
}

}  // namespace sepal::command
