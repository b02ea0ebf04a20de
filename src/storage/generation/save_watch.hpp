// Watches a running save: limits its bandwidth, and logs its progress.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/storage/generation/data_directory.hpp>

#include <cstdint>

namespace sepal::storage {

// Confined.
class SaveWatch {
 public:
  explicit SaveWatch(SteadyTime start) : start_(start), paid_until_(start), log_at_(start + log_period) {}

  // How long to wait before more is written; 0 for `bytes_per_second_max` means no limit.
  [[nodiscard]] SteadyTime::duration pause(const Progress& progress, std::uint64_t bytes_per_second_max,
                                           SteadyTime now);
  // Logs percent, speed and time left, but no more often than every log_period.
  void log(const Progress& progress, SteadyTime now);

 private:
  static constexpr std::chrono::seconds log_period{10};

  SteadyTime start_;
  SteadyTime paid_until_;  // when what was written so far is within the bandwidth
  std::uint64_t bytes_paid_ = 0;
  SteadyTime log_at_;
};

}  // namespace sepal::storage
