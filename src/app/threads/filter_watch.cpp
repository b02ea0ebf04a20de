#include "app/threads/filter_watch.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/glob.hpp>
#include <sepal/base/thread.hpp>

#include <algorithm>
#include <utility>

namespace sepal::app {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A step over so many keys takes a fraction of a millisecond inside the gate.
constexpr std::uint64_t keys_a_step = 256;
// The bits that are read of a filter. The items of one filled to 10% are then within 2%.
constexpr std::uint64_t watched_bytes_max = std::uint64_t{512} << 10;
// After a step the thread pauses this many times as long as the step took.
constexpr int step_pause_share = 4;
constexpr std::chrono::nanoseconds step_pause_min = 500us;
// After a round the same for the whole round, which includes the pauses.
constexpr int round_pause_share = 4;

}  // namespace

FilterWatch::FilterWatch(Gate& gate, std::size_t side, const keyspace::Keyspace& keyspace, Options options)
    : gate_(gate), side_(side), keyspace_(keyspace), options_(std::move(options)) {
  if (options_.filters_max == 0) return;
  thread_ = std::thread([this] {
    name_this_thread("watch");
    run();
  });
}

FilterWatch::~FilterWatch() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::shared_ptr<const FilterWatch::Filters> FilterWatch::seen() const {
  const MutexLock lock(mutex_);
  return seen_;
}

command::FilterLook FilterWatch::begin_look(std::uint32_t database, const std::string& key) const {
  const GateEntered inside(gate_, side_);
  return command::look_at_filter(keyspace_, {.database = database, .key = key},
                                 std::chrono::system_clock::now(), Clock::now());
}

std::vector<FilterHistory::Point> FilterWatch::history_of(std::uint32_t database,
                                                          const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = histories_.find({database, key});
  return found == histories_.end() ? std::vector<FilterHistory::Point>() : found->second.points();
}

std::optional<command::FilterDetail> FilterWatch::look_at(std::uint32_t database,
                                                          const std::string& key) const {
  // A key that the metrics leave out is not shown here either (decisions/0029).
  if (key.size() > watched_key_bytes_max || !matches(options_.pattern, key)) return std::nullopt;
  const auto look = begin_look(database, key);
  if (!look) return std::nullopt;
  command::FilterDetail detail = look(watched_bytes_max);
  for (const FilterHistory::Point& point : history_of(database, key))
    detail.history.push_back({.age_seconds = std::chrono::duration<double>(Clock::now() - point.at).count(),
                              .fill = point.fill,
                              .false_positive_rate = point.false_positive_rate});
  return detail;
}

void FilterWatch::run() {
  while (!ended_) {
    const auto begun = Clock::now();
    round();
    if (ended_) return;
    const std::chrono::nanoseconds took = Clock::now() - begun;
    wait(std::max<std::chrono::nanoseconds>(options_.round_min - took, round_pause_share * took));
  }
}

void FilterWatch::round() {
  // Read before the walk: a key that comes or goes during it leads to another walk.
  const std::uint64_t changes = keyspace_.structure_changes();
  // A filter that deletes grows cell by cell, which is no change of structure.
  const std::uint64_t bytes = keyspace_.memory_used();
  if (!walked_ || changes != walked_at_ || bytes != walked_at_bytes_) {
    walk();
    if (ended_) return;
    walked_ = true;
    walked_at_ = changes;
    walked_at_bytes_ = bytes;
  }
  measure_all();
}

void FilterWatch::walk() {
  largest_.clear();
  for (std::uint32_t database = 0; database < keyspace::database_count; ++database) {
    std::uint64_t cursor = 0;
    do {
      const auto begun = Clock::now();
      {
        const GateEntered inside(gate_, side_);
        // A step of a few keys for each entry into the gate: while this thread is inside, no thread can close
        // it.
        const keyspace::ScanStep step =
            keyspace_.scan(database, cursor, keys_a_step, std::chrono::system_clock::now());
        visit(database, step.keys);
        cursor = step.cursor;
        // Nearly all databases are empty.
        if (cursor == 0) continue;
      }
      if (!pause_after(Clock::now() - begun)) return;
    } while (cursor != 0);
  }
}

// Inside the gate.
void FilterWatch::visit(std::uint32_t database, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    if (key.size() > watched_key_bytes_max || !matches(options_.pattern, key)) continue;
    const std::uint64_t byte_count = command::filter_bytes(keyspace_, {.database = database, .key = key});
    if (byte_count != 0) keep({.byte_count = byte_count, .database = database, .key = key});
  }
}

void FilterWatch::keep(Candidate candidate) {
  const auto larger = [](const Candidate& one, const Candidate& other) {
    return one.byte_count > other.byte_count;
  };
  if (largest_.size() == options_.filters_max) {
    // The smallest of them is in front. So nearly every key costs one comparison.
    if (candidate.byte_count <= largest_.front().byte_count) return;
    std::ranges::pop_heap(largest_, larger);
    largest_.pop_back();
  }
  largest_.push_back(std::move(candidate));
  std::ranges::push_heap(largest_, larger);
  SEPAL_ASSERT(largest_.size() <= options_.filters_max, "more filters are watched than are asked for");
}

void FilterWatch::measure_all() {
  auto seen = std::make_shared<Filters>();
  for (const Candidate& each : largest_) {
    const auto begun = Clock::now();
    // Since the walk the key may have gone, or may name a value of another kind.
    const auto look = begin_look(each.database, each.key);
    if (!look) continue;
    seen->push_back(look(watched_bytes_max).seen);
    if (!pause_after(Clock::now() - begun)) return;
  }
  std::ranges::sort(*seen, [](const command::SeenFilter& one, const command::SeenFilter& other) {
    return one.byte_count > other.byte_count;
  });
  remember(*seen);
  const MutexLock lock(mutex_);
  seen_ = std::move(seen);
}

// Filters that are not among the largest any more are forgotten.
void FilterWatch::remember(const Filters& seen) {
  const MutexLock lock(mutex_);
  Histories histories;
  for (const command::SeenFilter& each : seen) {
    Place place{each.database, each.key_bytes};
    const auto known = histories_.find(place);
    FilterHistory history = known == histories_.end() ? FilterHistory() : std::move(known->second);
    history.record({.at = Clock::now(),
                    .fill = static_cast<float>(each.fill),
                    .false_positive_rate = static_cast<float>(each.false_positive_rate)});
    histories.insert_or_assign(std::move(place), std::move(history));
  }
  histories_ = std::move(histories);
}

bool FilterWatch::pause_after(std::chrono::nanoseconds worked) {
  return wait(std::max(step_pause_min, step_pause_share * worked));
}

bool FilterWatch::wait(std::chrono::nanoseconds duration) {
  const auto until = Clock::now() + duration;
  const MutexLock lock(mutex_);
  while (!stopping_ && changed_.wait_until(mutex_, until) == std::cv_status::no_timeout) {
  }
  ended_ = stopping_;
  return !ended_;
}

}  // namespace sepal::app
