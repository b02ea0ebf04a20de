// A library to preload: the clock of a program is two days ahead. What it measures durations with stays.
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  constexpr std::time_t days = 2, day_seconds = 86400;
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += days * day_seconds;
  return result;
}
