#include <sepal/base/assert.hpp>
#include <sepal/command/server/recent.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>

#include "command/run/worker_sums.hpp"
#include "command/server/rejections.hpp"
#include "command/table/command_index.hpp"

namespace sepal::command {
namespace {

// A list of counters, as an object of JSON; or a counter of its own, as a number.
struct CounterList {
  std::string_view name;
  std::vector<Rejection> counters;
  bool lone = false;
};

std::vector<CounterList> counters_of(const Services& services) {
  const auto lone = [&](std::string_view name, metrics::Counter WorkerStats::*counter) {
    return CounterList{
        .name = name, .counters = {{.reason = name, .count = sum_of(services, counter)}}, .lone = true};
  };
  return {lone("requests", &WorkerStats::requests),
          lone("error_replies", &WorkerStats::error_replies),
          {.name = "rejections", .counters = rejections(services)},
          {.name = "tls_handshakes_failed", .counters = failed_handshakes(services)},
          {.name = "adds_refused", .counters = refused_adds(services)}};
}

// CONFIG RESETSTAT sets counters to zero; what was before it is not told any more.
std::uint64_t grown_by(std::uint64_t then, std::uint64_t now) {
  return now >= then ? now - then : now;
}

double seconds_apart(SteadyTime then, SteadyTime now) {
  return std::chrono::duration<double>(now - then).count();
}

// Where the samples that are not too old begin.
template <class Samples>
auto first_since(const Samples& samples, SteadyTime oldest) {
  return std::ranges::find_if(samples, [&](const auto& sample) { return sample.at >= oldest; });
}

template <class Samples>
void forget_before(Samples& samples, SteadyTime oldest) {
  samples.erase(samples.begin(), first_since(samples, oldest));
}

template <class Buckets>
std::uint64_t calls_in(const Buckets& buckets) {
  return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0});
}

template <class Buckets>
void write_percentiles(const Buckets& buckets, metrics::JsonWriter& to) {
  for (const auto& [name, share] : {std::pair("p50_seconds", 0.5), std::pair("p99_seconds", 0.99)}) {
    to.name(name);
    if (calls_in(buckets) == 0) {
      to.null();
      continue;
    }
    const auto nanoseconds = static_cast<std::chrono::nanoseconds::rep>(percentile_of(buckets, share));
    to.number(std::chrono::duration<double>(std::chrono::nanoseconds(nanoseconds)).count());
  }
}

}  // namespace

Recent::Recent(SteadyTime started_at)
    : counts_{{.at = started_at, .counts = {}, .errors = {}}}, times_{{.at = started_at, .times = {}}} {}

void Recent::sample(const Services& services, SteadyTime now) {
  std::vector<std::uint64_t> counts;
  for (const CounterList& list : counters_of(services))
    for (const Rejection& counter : list.counters) counts.push_back(counter.count);
  Errors errors = error_counts(services);
  Times times = times_of(services);
  const SaveStatus save = services.persistence.status();
  const MutexLock lock(mutex_);
  forget_before(counts_, now - counts_age_max);
  counts_.push_back({.at = now, .counts = std::move(counts), .errors = std::move(errors)});
  forget_before(times_, now - times_age_max);
  times_.push_back({.at = now, .times = std::move(times)});
  // A save that has ended holds what was changed before it began. What it does not hold counts as new.
  if (save.changes_since == 0) {
    unsaved_since_.reset();
  } else if (!unsaved_since_ || save.saves_done != saves_done_) {
    unsaved_since_ = now;
  }
  saves_done_ = save.saves_done;
}

std::chrono::nanoseconds Recent::unsaved_for(SteadyTime now) const {
  const MutexLock lock(mutex_);
  return unsaved_since_ ? now - *unsaved_since_ : std::chrono::nanoseconds(0);
}

Recent::Times Recent::times_of(const Services& services) {
  Times times;
  for_each_row([&](const CommandSpec& row) {
    const CallCounts counts = call_counts(services, row);
    if (counts.total > 0) times.emplace(&row, counts.buckets);
  });
  return times;
}

void Recent::write(const Services& services, SteadyTime now, metrics::JsonWriter& to) const {
  write_counts(services, now, to);
  write_times(services, now, to);
}

void Recent::write_counts(const Services& services, SteadyTime now, metrics::JsonWriter& to) const {
  const std::vector<CounterList> lists = counters_of(services);
  const Errors errors = error_counts(services);
  const MutexLock lock(mutex_);
  const auto then = first_since(counts_, now - counts_age_max);
  const bool known = then != counts_.end();
  to.name("recent").begin_object();
  to.name("seconds").number(known ? seconds_apart(then->at, now) : 0.0);
  std::size_t at = 0;
  for (const CounterList& list : lists) {
    if (!list.lone) to.name(list.name).begin_object();
    for (const Rejection& counter : list.counters) {
      const std::uint64_t before = !known ? counter.count : at < then->counts.size() ? then->counts[at] : 0;
      to.name(counter.reason).number(grown_by(before, counter.count));
      ++at;
    }
    if (!list.lone) to.end_object();
  }
  to.name("errors").begin_object();
  for (const auto& [word, count] : errors) {
    if (!known) break;
    const auto before = then->errors.find(word);
    const std::uint64_t grown = grown_by(before == then->errors.end() ? 0 : before->second, count);
    if (grown > 0) to.name(word).number(grown);
  }
  to.end_object().end_object();
}

void Recent::write_times(const Services& services, SteadyTime now, metrics::JsonWriter& to) const {
  Times times = times_of(services);
  const MutexLock lock(mutex_);
  const auto then = first_since(times_, now - times_age_max);
  Buckets all{};
  struct Called {
    std::string_view command;
    Buckets buckets;
    std::uint64_t slow;  // nanoseconds
  };
  std::vector<Called> called;
  if (then == times_.end()) times.clear();
  for (auto& [row, buckets] : times) {
    if (const auto before = then->times.find(row); before != then->times.end())
      for (std::size_t at = 0; at < buckets.size(); ++at)
        buckets[at] = grown_by(before->second[at], buckets[at]);
    if (calls_in(buckets) == 0) continue;
    for (std::size_t at = 0; at < buckets.size(); ++at) all[at] += buckets[at];
    called.push_back({.command = row->name, .buckets = buckets, .slow = percentile_of(buckets, 0.99)});
  }
  std::ranges::stable_sort(called, std::ranges::greater(), &Called::slow);
  called.resize(std::min(called.size(), commands_max));
  to.name("latency").begin_object();
  to.name("seconds").number(then == times_.end() ? 0.0 : seconds_apart(then->at, now));
  write_percentiles(all, to);
  to.name("commands").begin_array();
  for (const Called& each : called) {
    to.begin_object().name("command").text(each.command).name("calls").number(calls_in(each.buckets));
    write_percentiles(each.buckets, to);
    to.end_object();
  }
  to.end_array().end_object();
}

}  // namespace sepal::command
