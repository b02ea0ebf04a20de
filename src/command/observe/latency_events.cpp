#include <sepal/base/arguments.hpp>
#include <sepal/base/assert.hpp>
#include <sepal/command/observe/latency_events.hpp>

#include <algorithm>

namespace sepal::command {

void LatencyEvents::add(std::string_view event, WallTime at, std::chrono::milliseconds duration) {
  const auto second = std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch());
  const MutexLock lock(mutex_);
  auto found = series_.find(event);
  // The first sample follows under the same lock. So no reader ever sees a series without samples.
  if (found == series_.end()) found = series_.emplace(event, Series{}).first;
  Series& series = found->second;
  series.longest = std::max(series.longest, duration);
  if (!series.samples.empty() && series.samples.back().at == second) {
    Sample& sample = series.samples.back();
    sample.duration = std::max(sample.duration, duration);
    return;
  }
  series.samples.push_back({.at = second, .duration = duration});
  if (series.samples.size() > latency_samples_max) series.samples.pop_front();
}

std::vector<LatencyEvents::Summary> LatencyEvents::all() const {
  // The summaries are copies, so a handler writes its reply without the lock, and no worker that adds waits
  // for it.
  const MutexLock lock(mutex_);
  std::vector<Summary> summaries;
  for (const auto& [event, series] : series_) {
    SEPAL_ASSERT(!series.samples.empty(), "an event is listed that has no sample");
    summaries.push_back({.event = event,
                         .latest = series.samples.back(),
                         .longest = series.longest,
                         .samples = {series.samples.begin(), series.samples.end()}});
  }
  return summaries;
}

std::vector<LatencyEvents::Sample> LatencyEvents::samples(std::string_view event) const {
  const MutexLock lock(mutex_);
  const auto found = series_.find(event);
  if (found == series_.end()) return {};
  return {found->second.samples.begin(), found->second.samples.end()};
}

std::size_t LatencyEvents::reset(std::span<const std::string_view> events) {
  const MutexLock lock(mutex_);
  return std::erase_if(series_, [&](const auto& each) {
    return events.empty() || std::ranges::any_of(events, [&](std::string_view event) {
             return equal_ignoring_case(event, each.first);
           });
  });
}

}  // namespace sepal::command
