// When a key expires: a time of the wall clock, in milliseconds since 1970-01-01 00:00 UTC. It is a number,
// because clients may name times that no time point of the library reaches.
#pragma once

#include <sepal/base/clock.hpp>

#include <chrono>
#include <cstdint>

namespace sepal::keyspace {

using Deadline = std::int64_t;              // above 0
inline constexpr Deadline no_deadline = 0;  // the key stays for ever

[[nodiscard]] constexpr Deadline deadline_at(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

// A key that is past its deadline is answered as if it were not there, whether it has been removed yet or
// not. With the default time, the start of 1970, no key is past its deadline.
[[nodiscard]] constexpr bool is_past(Deadline deadline, WallTime now) {
  return deadline != no_deadline && deadline <= deadline_at(now);
}

// Wide enough for the deadlines of as many keys as there can be.
__extension__ using DeadlineSum = unsigned __int128;

// The deadlines of a database's keys, where they have one.
struct DeadlineSummary {
  std::uint64_t count = 0;
  DeadlineSum sum = 0;
};

}  // namespace sepal::keyspace
