#include "storage/generation/save_watch.hpp"

#include <sepal/log/event.hpp>

#include <algorithm>
#include <utility>

namespace sepal::storage {

// Each byte costs time: 1 / bytes_per_second_max of a second. paid_until_ is the instant at which all bytes
// so far are paid for; if it lies ahead, the save waits until then.
SteadyTime::duration SaveWatch::pause(const Progress& progress, std::uint64_t bytes_per_second_max,
                                      SteadyTime now) {
  // A save that borrows the reserve is written a second time, from the beginning.
  bytes_paid_ = std::min(bytes_paid_, progress.bytes_done);
  const std::uint64_t bytes = progress.bytes_done - std::exchange(bytes_paid_, progress.bytes_done);
  // If the disk was slower than the limit for a while, the save does not make up for that time later.
  paid_until_ = std::max(paid_until_, now);
  // Without a limit, the bytes count as paid. So a limit that is set in the middle of a save holds for the
  // rest of it only.
  if (bytes_per_second_max == 0) return SteadyTime::duration::zero();
  const std::chrono::duration<double> price(static_cast<double>(bytes) /
                                            static_cast<double>(bytes_per_second_max));
  paid_until_ += std::chrono::duration_cast<SteadyTime::duration>(price);
  return paid_until_ - now;
}

void SaveWatch::log(const Progress& progress, SteadyTime now) {
  // A line comes log_period after the start at the earliest, and after the first byte. So neither the seconds
  // nor the speed below is 0.
  if (now < log_at_ || progress.bytes_done == 0) return;
  log_at_ = now + log_period;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double bytes_per_second = static_cast<double>(progress.bytes_done) / seconds;
  const auto bytes_left =
      static_cast<double>(progress.bytes_total - std::min(progress.bytes_done, progress.bytes_total));
  const double percent = 100.0 * static_cast<double>(progress.bytes_done) /
                         static_cast<double>(std::max(progress.bytes_done, progress.bytes_total));
  log::info("save_running", "save running",
            {{"percent", percent, 0},
             {"bytes_per_second", bytes_per_second, 0},
             {"seconds_left", bytes_left / bytes_per_second, 0}});
}

}  // namespace sepal::storage
