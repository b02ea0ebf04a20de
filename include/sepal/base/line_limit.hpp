// Bounds how many log lines of one kind are written, so that clients cannot fill the disk through the log.
#pragma once

#include <sepal/base/assert.hpp>
#include <sepal/base/clock.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace sepal {

// Confined to a thread, or guarded.
class LineLimit {
 public:
  // At most `lines_max` lines, from 1, in each `period`. A period begins with its first line.
  constexpr LineLimit(std::uint64_t lines_max, std::chrono::seconds period)
      : lines_max_(lines_max), period_(period) {
    SEPAL_ASSERT(lines_max > 0 && period.count() > 0, "a limit lets no line through, or bounds nothing");
  }

  // Whether a line is written now. `left_out` then is the number of lines that were not, and
  // that nothing has told yet.
  [[nodiscard]] bool takes(SteadyTime now, std::uint64_t& left_out) {
    if (written_ == 0 || now - began_ >= period_) {
      began_ = now;
      written_ = 0;
    }
    if (written_ >= lines_max_) {
      ++left_out_;
      return false;
    }
    ++written_;
    left_out = std::exchange(left_out_, 0);
    return true;
  }

  // How many lines were left out and not told yet, if their period is over; then they count as told. Else 0.
  [[nodiscard]] std::uint64_t take_left_out(SteadyTime now) {
    return now - began_ >= period_ ? std::exchange(left_out_, 0) : 0;
  }

 private:
  std::uint64_t lines_max_;
  std::chrono::seconds period_;
  SteadyTime began_{};
  std::uint64_t written_ = 0;   // in this period
  std::uint64_t left_out_ = 0;  // and not told yet
};

}  // namespace sepal
