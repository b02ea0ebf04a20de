#include <sepal/command/observe/rate_sampler.hpp>

namespace sepal::command {

TrafficRate RateSampler::sample(SteadyTime now, const TrafficCount& count, SteadyTime started_at) {
  const MutexLock lock(mutex_);
  if (!started_) {
    older_ = newer_ = Sample{.at = started_at, .count = {}};
    started_ = true;
  }
  if (now - newer_.at >= window_min) {
    older_ = newer_;
    newer_ = Sample{.at = now, .count = count};
  }
  const double seconds = std::chrono::duration<double>(now - older_.at).count();
  // Another worker may have sampled with a later clock or higher counts: differences may be negative.
  const auto rate = [seconds](std::uint64_t before, std::uint64_t after) {
    return seconds > 0 && after > before ? static_cast<double>(after - before) / seconds : 0.0;
  };
  return {.requests = rate(older_.count.requests, count.requests),
          .bytes_in = rate(older_.count.bytes_in, count.bytes_in),
          .bytes_out = rate(older_.count.bytes_out, count.bytes_out)};
}

void RateSampler::reset(SteadyTime now) {
  const MutexLock lock(mutex_);
  older_ = newer_ = Sample{.at = now, .count = {}};
  started_ = true;
}

}  // namespace sepal::command
